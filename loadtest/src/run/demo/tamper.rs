//! Spoils one endpoint through the API, to show that the verification finds it.

use super::Tamper;
use anyhow::Context;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};

/// Does it, and says what was done.
pub(super) async fn tamper(client: &Client, how: Tamper) -> anyhow::Result<String> {
    let all: Api<EndpointSlice> = Api::all(client.clone());
    let mut slices = all
        .list(&ListParams::default())
        .await
        .context("listing slices")?
        .items;
    slices.sort_by_key(|slice| (slice.namespace(), slice.name_any()));
    // Not the only endpoint of a slice: without it, the slice itself would be wrong as well.
    let has_two = |slice: &EndpointSlice| {
        slice
            .endpoints
            .as_ref()
            .is_some_and(|endpoints| endpoints.len() > 1)
    };
    let mut slice = slices
        .into_iter()
        .find(has_two)
        .context("no slice has two endpoints to tamper with")?;

    let namespace = slice.namespace().unwrap_or_default();
    let endpoints = slice.endpoints.get_or_insert_default();
    let alien_address = if slice.address_type == "IPv6" {
        "2001:db8::bad"
    } else {
        "203.0.113.66"
    };
    let name =
        |target: Option<&ObjectReference>| target.and_then(|target| target.name.clone()).unwrap_or_default();
    let what = match how {
        Tamper::Corrupt => {
            endpoints[0].addresses = vec![alien_address.to_owned()];
            format!(
                "changed the address of {} to {alien_address}",
                name(endpoints[0].target_ref.as_ref())
            )
        }
        Tamper::Drop => {
            let dropped = endpoints.remove(0);
            format!("took out {}", name(dropped.target_ref.as_ref()))
        }
        Tamper::Add => {
            let mut alien = endpoints[0].clone();
            alien.addresses = vec![alien_address.to_owned()];
            alien.target_ref = alien.target_ref.map(|target| ObjectReference {
                name: Some("intruder".to_owned()),
                uid: Some("00000000-0000-4000-8000-000000000000".to_owned()),
                ..target
            });
            endpoints.push(alien);
            format!("added intruder, {alien_address}")
        }
    };
    let name = slice.name_any();
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    api.replace(&name, &PostParams::default(), &slice)
        .await
        .with_context(|| format!("writing slice {name}"))?;
    Ok(format!("slice {namespace}/{name}: {what}"))
}
