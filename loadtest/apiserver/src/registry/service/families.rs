//! IP families of a Service.

use super::spec::service_type;
use crate::cause::Faults;
use crate::json::{text, texts};
use crate::validate::{family_of, parse_ip};
use serde_json::Value;

/// Sets the policy and the families: as they are given, as they were before, or to one IPv4 family.
pub(super) fn settle(service: &mut Value, old: Option<&Value>, faults: &mut Faults) {
    if service_type(service) == "ExternalName" {
        return;
    }
    let headless = text(service, "/spec/clusterIP") == "None";
    let selects = service.pointer("/spec/selector").and_then(Value::as_object);
    let selects = selects.is_some_and(|selector| !selector.is_empty());
    let before = old.map_or("", |old| text(old, "/spec/ipFamilyPolicy"));
    let policy = match (text(service, "/spec/ipFamilyPolicy"), before) {
        ("", "") if headless && !selects => "RequireDualStack",
        ("", "") => "SingleStack",
        ("", before) => before,
        (given, _) => given,
    };
    let policy = policy.to_owned();
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !policies.contains(&policy.as_str()) {
        faults.not_supported("spec.ipFamilyPolicy", &policy, &policies);
    }
    let mut ips = texts(service, "/spec/clusterIPs");
    let mut families = texts(service, "/spec/ipFamilies");
    for (i, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if !matches!(family.as_str(), "IPv4" | "IPv6") {
            faults.not_supported(&field, family, &["IPv4", "IPv6"]);
        } else if families[..i].contains(family) {
            faults.duplicate(&field, &Value::from(family.as_str()));
        }
    }
    if policy == "SingleStack" {
        // The second family is let go where the policy alone has changed.
        for (field, list) in [("clusterIPs", &mut ips), ("ipFamilies", &mut families)] {
            if old.is_some_and(|old| texts(old, &format!("/spec/{field}")) == *list) {
                list.truncate(1);
            }
        }
        if families.len() == 2 || ips.len() == 2 {
            let why = "must be 'RequireDualStack' or 'PreferDualStack' when there are multiple families";
            faults.invalid_text("spec.ipFamilyPolicy", &policy, why);
        }
    }
    if !faults.0.is_empty() {
        return;
    }
    for ip in ips.iter().skip(families.len()) {
        families.extend(parse_ip(ip).map(family_of).map(str::to_owned));
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if policy != "SingleStack" && families.len() == 1 {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
    if !ips.is_empty() {
        service["spec"]["clusterIPs"] = ips.into();
    }
    service["spec"]["ipFamilyPolicy"] = policy.into();
    service["spec"]["ipFamilies"] = families.into();
}
