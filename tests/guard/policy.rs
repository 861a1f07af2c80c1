//! The policy as it is delivered, and what an API server does with it.

use cel::{Context, Env, Program, Value as CelValue};
use scenario::guard::{Case, Cases, Request};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[derive(Clone, Deserialize)]
pub(crate) struct Named {
    name: String,
    expression: String,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Validation {
    expression: String,
    pub(crate) message: String,
}

/// The parts of the policy's spec that hold expressions.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    pub(crate) match_conditions: Vec<Named>,
    pub(crate) variables: Vec<Named>,
    pub(crate) validations: Vec<Validation>,
}

impl Policy {
    pub(crate) fn document() -> Value {
        serde_saphyr::from_str(&read("deploy/guard/policy.yaml")).unwrap()
    }

    /// As the manifests have it: of the controllers, only endpointslice-controller is switched on.
    pub(crate) fn shipped() -> Self {
        serde_json::from_value(Self::document()["spec"].clone()).unwrap()
    }

    /// With the patch that `docs/guard.md` shows: all are switched on, and the namespace `payments` is excluded.
    pub(crate) fn adapted() -> Self {
        let docs = read("docs/guard.md");
        let (_, overlay) = docs.split_once("```yaml\n").unwrap();
        let (overlay, _) = overlay.split_once("```").unwrap();
        let overlay: Value = serde_saphyr::from_str(overlay).unwrap();
        let patch = overlay["patches"][0]["patch"].as_str().unwrap();
        let patch: Vec<Value> = serde_saphyr::from_str(patch).unwrap();
        let mut document = Self::document();
        for step in patch {
            let place = document.pointer_mut(step["path"].as_str().unwrap()).unwrap();
            match step["op"].as_str().unwrap() {
                "test" => assert_eq!(*place, step["value"]),
                "replace" => *place = step["value"].clone(),
                other => panic!("{other} is not expected in the patch"),
            }
        }
        serde_json::from_value(document["spec"].clone()).unwrap()
    }

    pub(crate) fn expressions(&mut self) -> Vec<&mut String> {
        let named = self.match_conditions.iter_mut().chain(&mut self.variables);
        let validations = self.validations.iter_mut();
        let validations = validations.map(|validation| &mut validation.expression);
        named
            .map(|named| &mut named.expression)
            .chain(validations)
            .collect()
    }
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The match conditions leave the request alone.
    Skipped,
    Allowed,
    /// With the messages of all validations that do not hold. The API server shows the first.
    Refused(Vec<String>),
    /// An expression has no value. `failurePolicy: Fail` refuses the request.
    Failed(String),
}

/// A policy that is ready to be evaluated.
pub(crate) struct Guard {
    env: Arc<Env>,
    conditions: Vec<Program>,
    variables: Vec<(String, Program)>,
    validations: Vec<(String, Program)>,
}

impl Guard {
    pub(crate) fn new(policy: &Policy) -> Self {
        let env = Arc::new(Env::stdlib());
        let compile = |text: &str| {
            env.compile(text)
                .unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        let named = |it: &Named| (it.name.clone(), compile(&it.expression));
        let validation = |it: &Validation| (it.message.clone(), compile(&it.expression));
        let conditions = policy.match_conditions.iter();
        Self {
            conditions: conditions.map(|it| compile(&it.expression)).collect(),
            variables: policy.variables.iter().map(named).collect(),
            validations: policy.validations.iter().map(validation).collect(),
            env,
        }
    }

    pub(crate) fn decide(&self, request: &Request) -> Verdict {
        self.evaluate(request).unwrap_or_else(Verdict::Failed)
    }

    /// The API server evaluates a variable when it is first used, and never if it is not. Here all are evaluated at
    /// once, so each must have a value in every request.
    fn evaluate(&self, request: &Request) -> Result<Verdict, String> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable("object", &request.object).unwrap();
        context.add_variable("oldObject", &request.old_object).unwrap();
        context.add_variable("request", request.attributes()).unwrap();
        for condition in &self.conditions {
            if !holds(condition, &context)? {
                return Ok(Verdict::Skipped);
            }
        }
        let mut variables = HashMap::new();
        for (name, program) in &self.variables {
            context.add_variable_from_value("variables", variables.clone());
            let value = program.execute(&context);
            variables.insert(name.clone(), value.map_err(|error| format!("{name}: {error}"))?);
        }
        context.add_variable_from_value("variables", variables);
        let mut refusals = Vec::new();
        for (message, program) in &self.validations {
            if !holds(program, &context)? {
                refusals.push(message.clone());
            }
        }
        Ok(if refusals.is_empty() {
            Verdict::Allowed
        } else {
            Verdict::Refused(refusals)
        })
    }
}

fn holds(program: &Program, context: &Context<'_, '_>) -> Result<bool, String> {
    match program.execute(context) {
        Ok(CelValue::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("{other:?} is no bool")),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the first verdict that is not expected, in any form of the request.
pub(crate) fn surprise(case: &Case, guard: &Guard) -> Option<Verdict> {
    let forms = case.request.forms();
    let mut verdicts = forms.iter().map(|request| guard.decide(request));
    verdicts.find(|verdict| match (verdict, case.expected) {
        (Verdict::Skipped, None) | (Verdict::Allowed, Some([])) => false,
        (Verdict::Refused(messages), Some(expected)) => {
            let mut pairs = messages.iter().zip(expected);
            messages.len() != expected.len() || !pairs.all(|(message, words)| message.contains(words))
        }
        _ => true,
    })
}

/// Every surprise of a policy, by the case's name.
pub(crate) fn surprises(cases: &Cases, policy: &Policy) -> Vec<String> {
    let guard = Guard::new(policy);
    let named = |case: &Case| Some(format!("{}: {:?}", case.name, surprise(case, &guard)?));
    cases.0.iter().filter_map(named).collect()
}
