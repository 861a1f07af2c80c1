//! IP families of a Service.

use super::spec::service_type;
use crate::cause::Faults;
use crate::json::{text, texts};
use crate::validate::{address_faults, family_of, parse_ip};
use serde_json::Value;

fn policy(service: &Value) -> &str {
    text(service, "/spec/ipFamilyPolicy")
}

fn set(service: &mut Value, field: &str, texts: Vec<String>) {
    service["spec"][field] = texts.into();
}

fn other(family: &str) -> String {
    if family == "IPv4" { "IPv6" } else { "IPv4" }.to_owned()
}

/// Sets the policy and the families, from what is given, from what was before, or to one IPv4 family.
pub(super) fn settle(service: &mut Value, old: Option<&Value>, faults: &mut Faults) {
    if service_type(service) == "ExternalName" {
        for field in ["ipFamilies", "ipFamilyPolicy", "clusterIPs"] {
            if service["spec"].get(field).is_some() {
                faults.forbidden(
                    &format!("spec.{field}"),
                    "may not be set for ExternalName services",
                );
            }
        }
        return;
    }
    let headless = text(service, "/spec/clusterIP") == "None";
    let selects = service
        .pointer("/spec/selector")
        .and_then(Value::as_object)
        .is_some_and(|s| !s.is_empty());
    if policy(service).is_empty() {
        let before = old.map_or("", policy);
        let chosen = match (before, headless && !selects) {
            ("", true) => "RequireDualStack",
            ("", false) => "SingleStack",
            (before, _) => before,
        };
        service["spec"]["ipFamilyPolicy"] = chosen.into();
    }
    check_given(service, faults);
    if !faults.0.is_empty() {
        return;
    }
    if let Some(old) = old {
        reduce(service, old, faults);
    }
    let policy = policy(service).to_owned();
    let (ips, mut families) = (
        texts(service, "/spec/clusterIPs"),
        texts(service, "/spec/ipFamilies"),
    );
    if policy == "SingleStack" {
        let shown = Value::from(policy.as_str());
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple";
        if ips.len() == 2 {
            let why = format!("{why} cluster IPs are specified");
            faults.invalid("spec.ipFamilyPolicy", &shown, &why);
        }
        if families.len() == 2 {
            let why = format!("{why} IP families are specified");
            faults.invalid("spec.ipFamilyPolicy", &shown, &why);
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
        families.push(other(&families[0]));
    }
    set(service, "ipFamilies", families);
}

/// Checks what the client gave, before anything is derived from it.
fn check_given(service: &Value, faults: &mut Faults) {
    let policy = policy(service);
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !policies.contains(&policy) {
        faults.not_supported("spec.ipFamilyPolicy", policy, &policies);
    }
    let families = texts(service, "/spec/ipFamilies");
    for (i, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        if !matches!(family.as_str(), "IPv4" | "IPv6") {
            faults.not_supported(&field, family, &["IPv4", "IPv6"]);
        } else if families[..i].contains(family) {
            faults.duplicate(&field, &Value::from(family.as_str()));
        }
    }
    let ips = texts(service, "/spec/clusterIPs");
    let single = text(service, "/spec/clusterIP");
    if ips.is_empty() {
        return;
    }
    if ips.len() > 2 {
        faults.invalid(
            "spec.clusterIPs",
            &Value::from(ips),
            "may only hold up to 2 values",
        );
        return;
    }
    if single.is_empty() {
        let why = "must be empty when `clusterIP` is not specified";
        faults.invalid("spec.clusterIPs", &Value::from(ips), why);
        return;
    }
    if single != ips[0] {
        faults.invalid(
            "spec.clusterIPs",
            &Value::from(ips),
            "first value must match `clusterIP`",
        );
        return;
    }
    for (i, ip) in ips.iter().enumerate() {
        let field = format!("spec.clusterIPs[{i}]");
        if ip == "None" {
            if ips.len() > 1 {
                let why = "'None' must be the first and only value";
                faults.invalid("spec.clusterIPs", &Value::from(ips.clone()), why);
            }
            return;
        }
        let wrong = address_faults(ip, None);
        if !wrong.is_empty() {
            faults.each(&field, ip, wrong);
        } else if let (Some(family), Some(address)) = (families.get(i), parse_ip(ip))
            && family != family_of(address)
        {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            faults.invalid_text(&field, ip, &why);
        }
    }
    let kinds: Vec<_> = ips.iter().filter_map(|ip| parse_ip(ip)).map(family_of).collect();
    if kinds.len() == 2 && kinds[0] == kinds[1] {
        let why = "may specify no more than one IP for each IP family";
        faults.invalid("spec.clusterIPs", &Value::from(ips), why);
    }
}

/// Fewer families than before need the policy to say so.
fn reduce(service: &mut Value, old: &Value, faults: &mut Faults) {
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (before, after) = (
            texts(old, &format!("/spec/{field}")),
            texts(service, &format!("/spec/{field}")),
        );
        if policy(service) == "SingleStack" {
            if before == after && after.len() > 1 {
                set(service, field, after[..1].to_vec());
            }
        } else if before.len() == 2 && after.len() == 1 && before[0] == after[0] {
            let shown = Value::from(policy(service));
            let why = format!("must be 'SingleStack' to release the secondary {what}");
            faults.invalid("spec.ipFamilyPolicy", &shown, &why);
        }
    }
}
