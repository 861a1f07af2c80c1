//! Which proxy the environment names for a server, as client-go reads it. kube's own reading compares `NO_PROXY` with the
//! proxy's address instead of the server's.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use std::net::IpAddr;

/// Returns the proxy that the environment names for a server: for https:// only, and neither for this machine nor for what
/// `NO_PROXY` lists.
pub(super) fn of_environment(
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, &'static str> {
    let first = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&variable);
        values.find(|value| !value.trim().is_empty())
    };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let Some(proxy) = first(["HTTPS_PROXY", "https_proxy"]).filter(|_| !local) else {
        return Ok(None);
    };
    let proxy = match proxy.trim() {
        url if url.contains("://") => url.to_owned(),
        host => format!("http://{host}"),
    };
    let url = proxy.parse().map_err(|_| "HTTPS_PROXY is not a URL")?;
    let listed = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let mut listed = listed.split(',').map(str::trim);
    // The matcher knows `*` for names only, and neither `*.` nor ports.
    if listed.clone().any(|entry| entry == "*") {
        return Ok(None);
    }
    let port = server.port_u16().unwrap_or(443);
    let listed: Vec<&str> = listed
        .by_ref()
        .filter_map(|entry| without_port(entry, port))
        .collect();
    let matcher = Matcher::builder().https(&*proxy).no(listed.join(",")).build();
    Ok(matcher.intercept(server).map(|_| url))
}

/// Returns the host of an entry of `NO_PROXY`, unless the entry is for another port.
fn without_port(entry: &str, port: u16) -> Option<&str> {
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    match entry.rsplit_once(':') {
        Some((host, listed)) if !host.contains(':') || host.ends_with(']') => {
            (listed.parse() == Ok(port)).then(|| host.trim_matches(['[', ']']))
        }
        _ => Some(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = of_environment(&server.parse().unwrap(), variable).unwrap();
        found.map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_environments_proxy_is_for_other_machines_that_are_not_listed() {
        let set = ("HTTPS_PROXY", "http://user:word@proxy:3128");
        let used = Some("http://user:word@proxy:3128/".to_owned());
        assert_eq!(proxy("https://10.0.0.1:6443", &[set]), used);
        for direct in [
            "http://10.0.0.1",
            "https://localhost:6443",
            "https://127.0.0.1:1",
            "https://[::1]:6443",
        ] {
            assert_eq!(proxy(direct, &[set]), None, "{direct}");
        }
        assert_eq!(proxy("https://10.0.0.1", &[]), None);
        // The list is about servers: that the proxy is in it means nothing.
        for (list, server, found) in [
            ("127.0.0.1,proxy", "https://10.0.0.1", &used),
            ("10.0.0.0/8", "https://10.0.0.1:6443", &None),
            ("10.0.0.0/8", "https://192.0.2.1:6443", &used),
            ("10.0.0.1:6443", "https://10.0.0.1:6443", &None),
            ("10.0.0.1:443", "https://10.0.0.1:6443", &used),
            ("10.0.0.1:443", "https://10.0.0.1", &None),
            ("2001:db8::1", "https://[2001:db8::1]:6443", &None),
            ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443", &None),
            ("a, *", "https://10.0.0.1:6443", &None),
            ("*.example.com", "https://api.example.com:6443", &None),
            ("api.example.com:6443", "https://api.example.com:6443", &None),
            ("example.com", "https://api.example.com:6443", &None),
            (".example.com", "https://api.example.com:6443", &None),
            ("*", "https://api.example.com", &None),
        ] {
            assert_eq!(
                &proxy(server, &[set, ("NO_PROXY", list)]),
                found,
                "{list} {server}"
            );
        }
        let small = [("HTTPS_PROXY", ""), ("https_proxy", "proxy:3128")];
        assert_eq!(
            proxy("https://10.0.0.1", &small).as_deref(),
            Some("http://proxy:3128/"),
            "the first that is not empty, and http:// unless it says otherwise"
        );
    }
}
