//! Checks hints in proportion to the zones' CPUs.

use super::Model;
use endpointd::core::address::Family;
use endpointd::core::facts::SliceFacts;
use endpointd::core::hints::{Disabled, HintMode, HintedEndpoint, HintedSlice, Zone, assign};
use endpointd::core::nodes::NodeDirectory as _;

impl Model {
    /// Checks the balanced hints that the server has: either they are in order as they stand, or there are none.
    pub(crate) fn check_balanced_hints(&mut self) -> Result<(), String> {
        let ratios = self.nodes.zones(&"test".into()).ratios;
        for service in self.services.values() {
            if service.selector.is_none() || service.hints != HintMode::Auto {
                continue;
            }
            for family in Family::ALL.into_iter().filter(|family| service.has(*family)) {
                let of_service = |s: &&SliceFacts| s.meta.service == service.name && s.family == Some(family);
                let slices: Vec<_> = self
                    .store
                    .values()
                    .filter(|s| s.is_for(service))
                    .filter(of_service)
                    .collect();
                let zones: Vec<Vec<[Option<Zone>; 2]>> = slices
                    .iter()
                    .map(|slice| {
                        let endpoints = slice.endpoints.iter();
                        let zone = |zone: Option<&Box<str>>| zone.map(|zone| Zone::from(&**zone));
                        endpoints
                            .map(|e| [zone(e.zone.as_ref()), zone(e.zone_hints.first())])
                            .collect()
                    })
                    .collect();
                let slices: Vec<_> = slices
                    .iter()
                    .zip(&zones)
                    .map(|(slice, zones)| HintedSlice {
                        touched: false,
                        endpoints: slice
                            .endpoints
                            .iter()
                            .zip(zones)
                            .map(|(endpoint, [zone, hint])| HintedEndpoint {
                                ready: endpoint.ready == Some(true),
                                zone: zone.as_ref(),
                                hint: hint.as_ref(),
                            })
                            .collect(),
                    })
                    .collect();
                let hinted = slices
                    .iter()
                    .flat_map(|slice| &slice.endpoints)
                    .any(|e| e.hint.is_some());
                match ratios
                    .as_ref()
                    .map_err(|e| *e)
                    .and_then(|ratios| assign(ratios, &slices))
                {
                    Ok(changes) if changes.is_empty() => {}
                    Err(_) if !hinted => {}
                    // Hints stay while nodes are missing, if nothing else is written.
                    Err(Disabled::NoNodes | Disabled::OneZone) => {}
                    other => return Err(format!("{} {family:?}: {other:?} of {slices:?}", service.name)),
                }
            }
        }
        Ok(())
    }
}
