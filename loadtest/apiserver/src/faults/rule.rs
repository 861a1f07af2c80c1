//! Rules: which requests, how often, and what happens to them.

use super::{Ask, Fault};
use crate::catalog;
use crate::resources::Resources;
use std::fmt;
use std::time::Duration;

/// The operation of a request on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object is read.
    Get,
    /// A collection is read.
    List,
    /// A collection is watched.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// One object is deleted.
    Delete,
    /// A collection is deleted.
    DeleteCollection,
}

/// A set of verbs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verbs(u8);

/// Which requests a rule is about, and how many of these it hits. Without more, all of them.
#[derive(Clone, Debug)]
pub struct Matcher {
    verbs: Verbs,
    resources: Resources,
    namespace: String,
    name: String,
    client: String,
    continued: bool,
    pub(super) skip: u64,
    pub(super) every: u64,
    pub(super) rate: f64,
    pub(super) limit: Option<u64>,
    from: Duration,
    to: Option<Duration>,
}

/// A fault and when it happens.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) when: Matcher,
    pub(super) fault: Fault,
}

// === impl Verb ===

impl Verb {
    const EVERY: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The verb as RBAC and audit write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Verbs ===

impl Verbs {
    /// All verbs.
    pub const ALL: Self = Self(0xff);
    /// Get, list and watch.
    pub const READS: Self = Self(0b0000_0111);
    /// Everything that changes objects.
    pub const WRITES: Self = Self(0b1111_1000);

    /// Whether the verb is in the set.
    pub fn contains(self, verb: Verb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }
}

impl From<Verb> for Verbs {
    fn from(verb: Verb) -> Self {
        Self(1 << verb as u8)
    }
}

impl<const N: usize> From<[Verb; N]> for Verbs {
    fn from(verbs: [Verb; N]) -> Self {
        Self(verbs.into_iter().fold(0, |set, v| set | Self::from(v).0))
    }
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("*"),
            Self::WRITES => f.write_str("writes"),
            Self::READS => f.write_str("reads"),
            set => {
                let names = Verb::EVERY.into_iter().filter(|v| set.contains(*v));
                f.write_str(&names.map(Verb::name).collect::<Vec<_>>().join(","))
            }
        }
    }
}

// === impl Resources ===

impl From<&str> for Resources {
    /// # Panics
    ///
    /// For a name without a group that no kind of the server has: a rule that can never match is a mistake.
    fn from(resource: &str) -> Self {
        if resource == "*" {
            return Self::ALL;
        }
        let known = resource.contains('.') || catalog::all().iter().any(|kind| kind.resource == resource);
        assert!(known, "this server keeps no {resource:?}");
        Self(vec![resource.to_owned()])
    }
}

impl<const N: usize> From<[&str; N]> for Resources {
    fn from(resources: [&str; N]) -> Self {
        let sets = resources.map(Self::from);
        if sets.contains(&Self::ALL) {
            return Self::ALL;
        }
        let mut names: Vec<String> = sets.into_iter().flat_map(|set| set.0).collect();
        // In the table's order, so that a plan prints the same however it was written.
        let all = catalog::all();
        let place = |name: &String| all.iter().position(|kind| kind.resource == name.as_str());
        names.sort_by_key(|name| place(name).unwrap_or(all.len()));
        Self(names)
    }
}

// === impl Rule ===

impl Rule {
    /// Begins a rule: `Rule::on(Verb::Update, "endpointslices").rate(0.1).fault(...)`.
    ///
    /// # Panics
    ///
    /// When the server has no such kind.
    pub fn on(verbs: impl Into<Verbs>, resources: impl Into<Resources>) -> Matcher {
        Matcher {
            verbs: verbs.into(),
            resources: resources.into(),
            namespace: String::new(),
            name: String::new(),
            client: String::new(),
            continued: false,
            skip: 0,
            every: 1,
            rate: 1.0,
            limit: None,
            from: Duration::ZERO,
            to: None,
        }
    }

    /// The fault of this rule.
    pub fn what(&self) -> &Fault {
        &self.fault
    }
}

// === impl Matcher ===

impl Matcher {
    /// Only in namespaces whose name begins so.
    #[must_use]
    pub fn namespace(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.namespace);
        self
    }

    /// Only objects whose name begins so; for a create, the name or `generateName` of its body.
    #[must_use]
    pub fn name(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.name);
        self
    }

    /// Only requests of clients whose name ([`crate::ApiServer::service_as`]) or User-Agent begins so.
    #[must_use]
    pub fn client(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.client);
        self
    }

    /// Only the later pages of lists.
    #[must_use]
    pub fn continued(mut self) -> Self {
        self.continued = true;
        self
    }

    /// Leaves the first `n` matching requests alone.
    #[must_use]
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// Every `n`th matching request, from the `n`th on.
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.every = n.max(1);
        self
    }

    /// Each with this probability.
    ///
    /// # Panics
    ///
    /// When it is not between 0 and 1.
    #[must_use]
    pub fn rate(mut self, probability: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&probability),
            "{probability} is no probability"
        );
        self.rate = probability;
        self
    }

    /// At most so many requests in all. Without a rate, the next `n` of them.
    #[must_use]
    pub fn at_most(mut self, n: u64) -> Self {
        self.limit = Some(n);
        self
    }

    /// Only within this time on tokio's clock since the plan was set.
    #[must_use]
    pub fn between(mut self, from: Duration, to: Duration) -> Self {
        self.from = from;
        self.to = Some(to);
        self
    }

    /// Makes the rule by which this fault happens to them.
    pub fn fault(self, fault: Fault) -> Rule {
        Rule { when: self, fault }
    }

    /// Whether the rule is about this request, chance and counts aside.
    pub(super) fn covers(&self, ask: &Ask, passed: Duration) -> bool {
        self.verbs.contains(ask.verb)
            && self.resources.contains(ask.kind)
            && ask.namespace.starts_with(&self.namespace)
            && ask.name.starts_with(&self.name)
            && ask.client.starts_with(&self.client)
            && (!self.continued || ask.is_continued())
            && passed >= self.from
            && self.to.is_none_or(|to| passed < to)
    }

    pub(super) fn has(&self, verb: Verb) -> bool {
        self.verbs.contains(verb)
    }
}
