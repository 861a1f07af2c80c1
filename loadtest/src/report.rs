//! What a run measured: as JSON, as a page, and two or more of them side by side.

pub mod model;
