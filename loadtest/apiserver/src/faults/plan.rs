//! Plans: a seed and rules.

use super::{Fault, Rule, Verb, random};
use std::fmt;

/// A seed and the rules that draw from it. Its `Display` is what a failing test should print: the seed and the rules.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    pub(super) seed: u64,
    pub(super) rules: Vec<Rule>,
    pub(super) client: String,
}

impl FaultPlan {
    /// A plan without rules.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rules: Vec::new(),
            client: String::new(),
        }
    }

    /// A plan composed by chance of faults of all sorts: nasty, but a controller that retries makes progress, as
    /// what stops it comes at moderate rates and all rules end within two minutes.
    pub fn random(seed: u64) -> Self {
        random::plan(seed)
    }

    /// Adds a rule. Rules are asked in this order.
    ///
    /// # Panics
    ///
    /// When the rule can never bite: a fault of watches on other verbs.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        let needs_watch = matches!(rule.fault, Fault::Watch(_) | Fault::NoStreamingLists);
        assert!(
            !needs_watch || rule.when.has(Verb::Watch),
            "only a rule for watches can bite with {:?}",
            rule.fault
        );
        self.rules.push(rule);
        self
    }

    /// Spares all clients but those whose name ([`crate::ApiServer::service_as`]) or User-Agent begins so.
    #[must_use]
    pub fn only_client(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.client);
        self
    }

    /// Leaves out the rules whose fault is not wanted, such as those a random plan should not have.
    #[must_use]
    pub fn retain(mut self, wanted: impl Fn(&Fault) -> bool) -> Self {
        self.rules.retain(|r| wanted(&r.fault));
        self
    }

    /// The rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault plan, seed {}", self.seed)?;
        if !self.client.is_empty() {
            write!(f, ", only client {}*", self.client)?;
        }
        for (i, rule) in self.rules.iter().enumerate() {
            write!(f, "\n  {i}. {}: {:?}", rule.fault, rule.when)?;
        }
        Ok(())
    }
}
