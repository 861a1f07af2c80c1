//! The admission policy in `deploy/guard` refuses what it should and nothing else. Its CEL is evaluated here on requests
//! of every kind; no cluster is needed.
//!
//! Most tests adapt the policy with the patch that `docs/guard.md` shows, and so show that the patch fits.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "guard/policy.rs"]
mod policy;

use policy::{Guard, Policy, Verdict, read, surprise, surprises};
use scenario::guard::{
    CUSTOM, Cases, ENDPOINTD, MANAGER, MESSAGES, MIRRORED, SLICES, all, create, delete, empty, large_slices,
    of, slice, update,
};
use serde_json::{Value, json};

const NONE: [String; 0] = [];

#[test]
fn requests_are_allowed_and_refused_for_the_right_reason() {
    assert_eq!(surprises(&all(), &Policy::adapted()), NONE);
    assert_eq!(surprises(&large_slices(), &Policy::adapted()), NONE);
}

#[test]
fn the_match_condition_only_saves_work() {
    let mut policy = Policy::adapted();
    policy.match_conditions.clear();
    assert!(!surprises(&all(), &policy).is_empty());
    assert_eq!(surprises(&all().without_match_conditions(), &policy), NONE);
}

#[test]
fn as_shipped_the_guard_knows_the_controllers_of_the_base() {
    let ours = slice(SLICES);
    let mut cases = Cases::default();
    for manager in [MIRRORED, CUSTOM] {
        let other = slice(manager);
        cases.refuses(&[MANAGER], "creates", create(ENDPOINTD, other.clone()));
        cases.refuses(
            &[MANAGER],
            "updates",
            update(ENDPOINTD, other.clone(), other.clone()),
        );
        cases.refuses(
            &[MANAGER],
            "takes",
            update(ENDPOINTD, other.clone(), ours.clone()),
        );
        cases.refuses(&[MANAGER], "deletes", delete(ENDPOINTD, other));
    }
    cases.allows("creates ours", create(ENDPOINTD, ours.clone()));
    cases.allows("updates ours", update(ENDPOINTD, ours.clone(), empty(&ours)));
    cases.allows("deletes ours", delete(ENDPOINTD, ours.clone()));
    for namespace in ["default", "kube-system", "payments"] {
        cases.allows(namespace, create(ENDPOINTD, of(&ours, namespace, "web")));
    }
    assert_eq!(surprises(&cases, &Policy::shipped()), NONE);
}

/// Without a validation, each request that nothing else refuses is allowed: there are such, and the words are its own.
#[test]
fn a_validation_that_is_left_out_is_missed() {
    let cases = all();
    let whole = Policy::adapted();
    assert_eq!(whole.validations.len(), MESSAGES.len());
    for (at, words) in MESSAGES.iter().enumerate() {
        let says = whole.validations.iter().filter(|it| it.message.contains(words));
        assert_eq!(says.count(), 1, "{words:?} should be in one message");
        let mut policy = whole.clone();
        assert!(policy.validations.remove(at).message.contains(words));
        let guard = Guard::new(&policy);
        let alone = cases.0.iter().filter(|case| case.expected == Some(&[*words]));
        let verdicts: Vec<_> = alone.map(|case| surprise(case, &guard)).collect();
        assert!(!verdicts.is_empty(), "{words:?} refuses nothing alone");
        assert!(
            verdicts.iter().all(|it| *it == Some(Verdict::Allowed)),
            "{words:?}: {verdicts:?}"
        );
    }
}

/// Parts of expressions, and what each is changed to.
#[rustfmt::skip]
const MUTATIONS: &[(&str, &str)] = &[
    ("'system:serviceaccount:kube-system:endpointd'", "'system:serviceaccount:default:endpointd'"),
    (" == 'system:serviceaccount:kube-system:endpointd'", ".endsWith(':endpointd')"),
    (".?username.orValue('')", ".username"),
    ("[object, oldObject]", "[object]"),
    ("[object, oldObject]", "[oldObject]"),
    ("slice != null && slice.metadata", "slice.metadata"),
    (".filter(slice, slice != null)", ""),
    ("slice.metadata.?labels[?", "slice.metadata.labels[?"),
    ("object != null && object.metadata", "object.metadata"),
    ("object.metadata.?labels[?", "object.metadata.labels[?"),
    ("object != null && has", "has"),
    ("oldObject != null && has", "has"),
    ("has(object.", "true || has(object."),
    ("has(oldObject.", "true || has(oldObject."),
    ("dyn(object.endpoints) != null", "true"),
    ("dyn(object.ports) != null", "true"),
    ("dyn(oldObject.endpoints) != null", "true"),
    ("dyn(oldObject.ports) != null", "true"),
    ("!variables.byEndpointd || ", ""),
    ("variables.byEndpointd || ", ""),
    ("request.namespace in variables.excludedNamespaces", "request.namespace in ['shop']"),
    ("request.namespace != 'default' || ", ""),
    ("!('kubernetes' in variables.services)", "variables.services[0] != 'kubernetes'"),
    ("variables.managedBy.all", "variables.managedBy.exists"),
    ("!variables.custom || ", ""),
    (".?ownerReferences.orValue([])", ".ownerReferences"),
    ("owner.apiVersion == 'v1' && ", ""),
    ("owner.kind == 'Service' && ", ""),
    ("owner.?controller.orValue(false) && ", ""),
    ("owner.?controller.orValue(false)", "owner.?controller.orValue(true)"),
    (" && owner.name == object.metadata.labels[?'kubernetes.io/service-name'].orValue('')", ""),
    ("labels[?'kubernetes.io/service-name'].orValue('')", "labels['kubernetes.io/service-name']"),
    ("variables.endpoints.all(", "variables.endpoints.exists("),
    ("endpoint.?targetRef.?kind.orValue('') == 'Pod' && ", ""),
    ("?kind.orValue('')", "?kind.orValue('Pod')"),
    (" && endpoint.?targetRef.?namespace.orValue('') == request.namespace", ""),
    ("?namespace.orValue('')", "?namespace.orValue(request.namespace)"),
    ("request.operation != 'CREATE' || ", ""),
    ("request.operation != 'UPDATE' || ", ""),
    (" || !('endpointd.io' in variables.managedBy)", ""),
    ("object.addressType == oldObject.addressType && ", ""),
    ("variables.endpoints == variables.oldEndpoints && ", ""),
    (" && variables.ports == variables.oldPorts", ""),
];

/// Each change is made to one expression at a time, wherever it fits.
#[test]
fn an_expression_that_is_changed_is_missed() {
    let cases = all();
    let cases_without_condition = all().without_match_conditions();
    let whole = Policy::adapted();
    let mut not_missed = Vec::new();
    for (from, to) in MUTATIONS {
        let mut fits = false;
        for at in 0..whole.clone().expressions().len() {
            let mut policy = whole.clone();
            let expression = policy.expressions().swap_remove(at);
            if !expression.contains(from) {
                continue;
            }
            fits = true;
            *expression = expression.replace(from, to);
            let mutant = expression.clone();
            let guard = Guard::new(&policy);
            policy.match_conditions.clear();
            let without_condition = Guard::new(&policy);
            let surprises = cases.0.iter().filter_map(|case| surprise(case, &guard));
            let others = cases_without_condition.0.iter();
            let others = others.filter_map(|case| surprise(case, &without_condition));
            if surprises.chain(others).next().is_none() {
                not_missed.push(mutant);
            }
        }
        assert!(fits, "{from:?} is in no expression");
    }
    assert_eq!(not_missed, NONE);
}

/// The parts of the policy around the expressions: without them, these would not be asked, or not be heard.
#[test]
fn the_policy_is_asked_about_all_writes_of_slices_and_its_answer_counts() {
    let policy = Policy::document();
    let rules = json!([{
        "apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "resources": ["endpointslices"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
    }]);
    assert_eq!(
        policy["spec"]["matchConstraints"],
        json!({"resourceRules": rules})
    );
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    let binding: Value = serde_saphyr::from_str(&read("deploy/guard/binding.yaml")).unwrap();
    let spec = json!({"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]});
    assert_eq!(binding["spec"], spec);
}

#[test]
fn the_chart_has_the_same_policy() {
    let policy = read("deploy/guard/policy.yaml");
    let (_, spec) = policy.split_once("\nspec:\n").unwrap();
    let copy = read("deploy/chart/endpointd/files/guard.yaml");
    assert!(copy == format!("spec:\n{spec}"), "run deploy/checks/sync");
}
