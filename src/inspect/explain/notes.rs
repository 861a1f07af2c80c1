//! Notes on a Service, in words: facts that are worth knowing, and what may be wrong with it.

use super::{Seen, SeenNodes};
use crate::core::facts::{
    ANNOTATION_LEADER, ANNOTATION_SELECTOR, ANNOTATION_TOLERATE_UNREADY, CUSTOM_MANAGED_BY, LABEL_MANAGED_BY,
    LABEL_SERVICE_NAME, LABEL_SKIP_MIRROR, MANAGED_BY, MIRRORED_BY, SliceFacts, TolerateUnready,
};
use crate::core::hints::HintMode;
use crate::core::mirror::{LeftOut, MirroredObject};
use crate::inspect::text::plural;
use std::collections::BTreeMap;

/// Returns facts about the Service itself that are worth knowing.
pub(super) fn notes(seen: &Seen) -> Vec<String> {
    let service = &seen.service;
    let facts = &service.facts;
    let outputs = seen.settings.outputs;
    let mut notes = Vec::new();
    if seen.left_out {
        notes.push(format!(
            "the Service is left out: its {ANNOTATION_SELECTOR} is heeded if --controllers names custom-selector-controller"
        ));
    } else if service.selects
        && !facts.custom
        && &*service.kind != "ExternalName"
        && !(outputs.slices || outputs.endpoints)
    {
        notes.push("no controller that --controllers names publishes the pods of a selector".to_owned());
    }
    notes.extend(sources(seen));
    if !service.selects && !facts.custom && &*service.kind != "ExternalName" && outputs.mirrored {
        notes.extend(mirroring(seen));
    }
    if facts.no_cluster_ip && facts.is_managed() {
        notes.push("headless: DNS answers with the addresses of its pods".to_owned());
    }
    if facts.publish_not_ready {
        notes.push("publishNotReadyAddresses: pods are published as ready whatever their state".to_owned());
    }
    if facts.is_managed() {
        notes.extend(hints(facts.hints).map(str::to_owned));
    }
    notes
}

/// Says where the endpoints of a Service without a selector come from.
fn sources(seen: &Seen) -> Vec<String> {
    let service = &seen.service;
    let facts = &service.facts;
    let mut notes = Vec::new();
    if &*service.kind == "ExternalName" {
        let target = service.external_name.as_deref().unwrap_or("nothing");
        notes.push(format!(
            "type ExternalName: DNS answers with the name {target}; it has no endpoints, and what was \
             published before is left as it is"
        ));
    } else if facts.custom {
        notes.push(format!(
            "its pods are those that the annotation {ANNOTATION_SELECTOR} selects; endpointd writes no Endpoints for it"
        ));
    } else if !service.selects && !seen.left_out {
        notes.push(
            "it has no selector: nobody publishes pods for it; its endpoints are those that people or other \
             controllers write, and are left alone"
                .to_owned(),
        );
    }
    notes
}

/// Says which hints endpoints get, if any.
fn hints(mode: HintMode) -> Option<&'static str> {
    match mode {
        HintMode::None => None,
        HintMode::Auto => {
            Some("topology-mode Auto: endpoints are hinted to zones in proportion to their CPU")
        }
        HintMode::SameZone => Some("trafficDistribution: each endpoint is hinted to its own zone"),
        HintMode::SameNode => Some("trafficDistribution: each endpoint is hinted to its own node and zone"),
    }
}

/// Says what is mirrored of a Service without a selector, and why not if it is not.
fn mirroring(seen: &Seen) -> Vec<String> {
    let Some(endpoints) = &seen.endpoints else {
        return Vec::new();
    };
    if endpoints.meta.skip_mirror {
        return vec![format!(
            "its Endpoints are not mirrored: they have the label {LABEL_SKIP_MIRROR}"
        )];
    }
    if endpoints.meta.leader {
        return vec![format!(
            "its Endpoints are not mirrored: the annotation {ANNOTATION_LEADER} says that they are a lock"
        )];
    }
    let Some(content) = MirroredObject::new(&seen.namespace, endpoints, seen.settings.max_mirrored) else {
        return vec![
            "its Endpoints are not mirrored: the slices would be more than 16 times as large, because too many ports \
             share a name, or the same ports occur in too many combinations of subsets; or there would be more than 64 \
             slices and one for each 384 bytes, because too many subsets have ports of their own"
                .to_owned(),
        ];
    };
    let mut notes = vec![format!(
        "its Endpoints are mirrored: {} in {}",
        plural(content.endpoints(), "endpoint"),
        plural(content.groups.len(), "slice")
    )];
    let LeftOut {
        invalid,
        beyond_limit,
    } = content.left_out;
    if invalid > 0 {
        notes.push(format!(
            "{invalid} of its addresses are no IPs, and are not mirrored"
        ));
    }
    if beyond_limit > 0 {
        notes.push(format!(
            "{beyond_limit} of its addresses are not mirrored: at most {} of a subset are",
            seen.settings.max_mirrored
        ));
    }
    notes
}

/// Returns what may be wrong with the Service itself, or could not be read.
pub(super) fn warnings(seen: &Seen) -> Vec<String> {
    let service = &seen.service;
    let mut warnings = Vec::new();
    if &*service.kind == "ExternalName" && service.selects {
        warnings.push("its selector has no effect".to_owned());
    }
    if service.facts.deleting {
        warnings.push("it is being deleted: no slices are created any more".to_owned());
    }
    if service.facts.tolerate_unready != TolerateUnready::Unset && !seen.settings.legacy_tolerate_unready {
        warnings.push(format!(
            "the annotation {ANNOTATION_TOLERATE_UNREADY} has no effect unless the controller runs with \
             --legacy-tolerate-unready-annotation; here it is taken to have none"
        ));
    }
    warnings.extend(annotation_warnings(seen));
    if let Some(why) = &seen.endpoints_unreadable {
        warnings.push(format!(
            "Endpoints could not be read, so nothing can be said about them: {why}"
        ));
    }
    if let SeenNodes::Unreadable(why) = &seen.nodes {
        let nor = if seen.judges_slices() {
            ", nor whether slices are in sync"
        } else {
            ""
        };
        warnings.push(format!(
            "nodes could not be read, so nothing can be said about them{nor}: {why}"
        ));
    }
    warnings
}

/// Returns what may be wrong with the annotations that say what is published, and which slices of others are used beside
/// ours.
fn annotation_warnings(seen: &Seen) -> Vec<String> {
    let facts = &seen.service.facts;
    let unknown = facts.unknown_annotations.iter();
    let mut warnings: Vec<_> = unknown.map(|unknown| unknown.problem()).collect();
    let Some(annotated) = &facts.annotated else {
        return warnings;
    };
    if let Some(why) = facts.why_not_custom(&seen.namespace) {
        warnings.push(format!("the annotation {ANNOTATION_SELECTOR} is ignored: {why}"));
        return warnings;
    }
    if let Some(problem) = annotated.problem() {
        warnings.push(format!(
            "the selector in the annotation {ANNOTATION_SELECTOR} is not used: {problem}; no pods are added, and those \
             that are published stay until they are gone"
        ));
    }
    if !seen.left_out && !seen.slices.iter().any(SliceFacts::is_custom) {
        warnings.push(format!(
            "no slice has been published for {ANNOTATION_SELECTOR}: custom-selector-controller does that, and is off unless \
             --controllers of endpointd run names it"
        ));
    }
    warnings.extend(beside_ours(seen));
    warnings
}

/// Returns which slices of other managers name an annotated Service.
fn beside_ours(seen: &Seen) -> Vec<String> {
    let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for slice in &seen.slices {
        if slice.manager() != Some(CUSTOM_MANAGED_BY) {
            *counts.entry(slice.manager()).or_default() += 1;
        }
    }
    let (namespace, name) = (&seen.namespace, &seen.service.facts.name);
    let ours_hold = seen
        .slices
        .iter()
        .any(|slice| slice.is_custom() && !slice.endpoints.is_empty());
    let delete = |labels: String| {
        format!("kubectl -n {namespace} delete endpointslices -l {LABEL_SERVICE_NAME}={name},{labels}")
    };
    let each = |(manager, count)| {
        let remove = match manager {
            // While there are Endpoints, they are mirrored again.
            Some(MIRRORED_BY) => format!("kubectl -n {namespace} delete endpoints {name}"),
            Some(MANAGED_BY) => delete(format!("{LABEL_MANAGED_BY}={MANAGED_BY}")),
            Some(_) => "whoever manages them must stop to, or they come back".to_owned(),
            None => delete(format!("'!{LABEL_MANAGED_BY}'")),
        };
        let others = format!(
            "{} of {} {} this Service too",
            plural(count, "slice"),
            manager.unwrap_or("no manager"),
            if count == 1 { "names" } else { "name" }
        );
        // Without the others, clients would have no endpoints.
        if ours_hold {
            format!("{others}, and clients use their endpoints beside ours; if they are not wanted: {remove}")
        } else {
            format!("{others}; no slice of ours holds endpoints, so clients have no others than theirs")
        }
    };
    counts.into_iter().map(each).collect()
}
