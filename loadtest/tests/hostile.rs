//! `loadtest chaos --hostile`, much smaller than the worst: that it runs, and that others are served meanwhile. How fast
//! they are served is measured with an optimised build on a quiet machine.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

use std::process::Command;

const ATTACKS: [&str; 6] = ["none", "collisions", "ports", "services", "mirrored", "backlog"];

#[test]
fn neighbours_of_a_small_attack_are_served_and_the_lease_is_kept() {
    let output = Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args(["chaos", "--hostile", "--for=3s", "--scale=0.01", "--limit=3s"])
        .args(ATTACKS.map(|attack| format!("--only={attack}")))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    for attack in ATTACKS {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{attack} "))),
            "{attack}"
        );
    }
}
