//! The API in JSON.

pub(super) mod decode;
mod encode;
mod endpoints;
mod items;
mod nodes;
mod pods;
mod services;
mod slices;
mod wire;

pub use wire::Status;

use crate::core::body::{AddressBody, Encode, EndpointBody, EndpointsBody, SliceBody};
use crate::core::subsets::Address;

/// JSON, as the API server takes it.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl Encode for Json {
    type Body = Vec<u8>;

    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Vec<u8> {
        slices::encode(slice)
    }

    fn endpoints<'a, A: Address>(
        &mut self,
        endpoints: EndpointsBody<'a, A, impl Fn(A) -> AddressBody<'a>>,
    ) -> Vec<u8> {
        endpoints::encode(&endpoints)
    }
}

#[cfg(test)]
mod tests;
