//! Objects that a test puts there itself. No fault plan and no access rule stands in the way.

use crate::pass::ApiServer;
use crate::seed::{self, LoadError};
use crate::yaml;
use serde_json::Value;

impl ApiServer {
    /// Stores the objects of a YAML text of one or more documents: what is not there is created, what is there is changed
    /// as by a merge patch, so that fields which the text leaves out stay. Lists stand for their items. A status is
    /// stored as it is given, and a namespace that is not there is made. Namespaces are stored first.
    ///
    /// Objects get new UIDs, whatever the text says. References stay as they are: the garbage collector deletes an object
    /// whose owners are not on the server, as in a cluster.
    ///
    /// # Errors
    ///
    /// When the text is not YAML, or an object is refused; those before it are stored.
    pub fn load(&self, yaml: &str) -> Result<(), LoadError> {
        let documents = yaml::documents(yaml).map_err(LoadError::Yaml)?;
        seed::load(self.store(), &documents)
    }

    /// Stores an object as it is given, with a new UID and the present time: what a request would have had defaulted,
    /// converted and checked has to be so already, as in a copy of an object that the server has shown. It takes a tenth
    /// of the time of a request, for clusters of very many objects.
    ///
    /// # Errors
    ///
    /// When the server does not serve the kind, or does more with it than to store it (Services get addresses, for
    /// instance), or when the namespace is not there, or the name is taken.
    pub fn restore(&self, object: Value) -> Result<(), LoadError> {
        seed::restore(self.store(), object)
    }
}
