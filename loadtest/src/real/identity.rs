//! The certificates, keys and tokens of one throw-away control plane, and the kubeconfigs that hold them.

use anyhow::Context;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a token.
const TOKEN: usize = 24;

/// An account that the API server knows by a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// May do everything, and API Priority and Fairness does not hold it up.
    Admin,
    /// kube-controller-manager, which has the rights that Kubernetes gives to it.
    ControllerManager,
}

/// The credentials of a control plane, in files of a folder.
pub(super) struct Identity {
    folder: PathBuf,
    ca: String,
    tokens: Vec<(Account, String)>,
}

// === impl Account ===

impl Account {
    const ALL: [Self; 2] = [Self::Admin, Self::ControllerManager];

    fn user(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
        }
    }

    fn group(self) -> Option<&'static str> {
        match self {
            Self::Admin => Some("system:masters"),
            Self::ControllerManager => None,
        }
    }
}

// === impl Identity ===

impl Identity {
    /// Makes everything anew, in a folder that is there.
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "throw-away");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        let identity = Self {
            folder: folder.to_owned(),
            ca: ca.pem(),
            tokens: Account::ALL
                .into_iter()
                .map(|account| Ok((account, token()?)))
                .collect::<anyhow::Result<_>>()?,
        };
        write_secret(&identity.certificate(), &certificate.pem())?;
        write_secret(&identity.key(), &key.serialize_pem())?;
        let accounts_key = KeyPair::generate()?;
        write_secret(&identity.account_key(), &accounts_key.serialize_pem())?;
        write_secret(&identity.account_public_key(), &accounts_key.public_key_pem())?;
        let accounts = identity.tokens.iter().map(|(account, token)| {
            let user = account.user();
            let group = account.group().map(|group| format!(",\"{group}\""));
            format!("{token},{user},{user}{}\n", group.unwrap_or_default())
        });
        write_secret(&identity.token_file(), &accounts.collect::<String>())?;
        Ok(identity)
    }

    /// The API server's certificate.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("apiserver.crt")
    }

    /// Its key.
    pub(super) fn key(&self) -> PathBuf {
        self.folder.join("apiserver.key")
    }

    /// The key that tokens of service accounts are signed with.
    pub(super) fn account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    /// The key that they are checked with.
    pub(super) fn account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    /// The tokens of accounts that are not service accounts, as kube-apiserver reads them.
    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    /// Writes a kubeconfig for an account.
    pub(super) fn kubeconfig(&self, account: Account, port: u16) -> anyhow::Result<PathBuf> {
        let mut tokens = self.tokens.iter();
        let (_, token) = tokens
            .find(|(other, _)| *other == account)
            .expect("every account has a token");
        let name = account.user().replace(':', "-");
        self.kubeconfig_with_token(&name, token, port)
    }

    /// Writes a kubeconfig with a token, under a name, for a server on this port of loopback.
    pub(super) fn kubeconfig_with_token(
        &self,
        name: &str,
        token: &str,
        port: u16,
    ) -> anyhow::Result<PathBuf> {
        // JSON is YAML, too.
        let content = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "contexts": [{ "name": "real", "context": { "cluster": "real", "user": name } }],
            "users": [{ "name": name, "user": { "token": token } }],
            "clusters": [{ "name": "real", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": BASE64_STANDARD.encode(&self.ca),
            } }],
        });
        let path = self.folder.join(format!("{name}-{port}.kubeconfig"));
        write_secret(&path, &content.to_string())?;
        Ok(path)
    }
}

fn token() -> anyhow::Result<String> {
    let mut bytes = [0; TOKEN];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Writes a file that only its owner may read.
fn write_secret(path: &Path, content: &str) -> anyhow::Result<()> {
    let written = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}
