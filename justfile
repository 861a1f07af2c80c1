# What CI runs, and what developers need. Every step of CI is a recipe here.

default: fmt-check clippy test

# Download dependencies; everything else can run offline after this.
fetch:
    cargo fetch --locked

fmt:
    cargo fmt --all

fmt-check:
    cargo fmt --all --check

clippy:
    cargo clippy --workspace --all-targets --locked -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Needs cargo-deny: advisories, bans, licences and sources as deny.toml has them.
deny:
    cargo deny check

# Needs cargo-audit: the same advisories, asked of Cargo.lock alone, and so for every platform and feature.
audit:
    cargo audit

test:
    cargo test --workspace

# What a change breaks first: under a minute, once it is built.
quick:
    cargo test -p endpointd --lib --test layers --test purity --test goldens --test core --test controller

# The properties over cases that no run before has played. A failure prints its shortest case; with the seed that is
# printed first it comes again. Then all perturbations of recorded scenarios, of which tests play a
# tenth, and all cases of the explorer.
explore SEED=`od -An -N4 -tu4 /dev/urandom | tr -d ' '`:
    PROPTEST_RNG_SEED={{ SEED }} cargo test --workspace --lib --test core
    PERTURBATIONS=all cargo test -p endpointd --test perturbations
    EXPLORER_ALL=1 cargo test -p endpointd --test explorer -- --nocapture

# Random histories that no run before has played: of the controller against an API server with faults, and of the pure core.
# A failure prints its seed. To be run after each change of how slices, Leases or answers are handled.
histories FROM=`od -An -N4 -tu4 /dev/urandom | tr -d ' '` SEEDS='10000' ROUNDS='50':
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release --workspace
    target/release/loadtest chaos --from {{ FROM }} --seeds {{ SEEDS }} --sockets 0
    for _ in $(seq {{ ROUNDS }}); do
        PROPTEST_RNG_SEED=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') cargo test --workspace --test core properties
    done

# Puts known defects back into the source, one at a time: the explorer must find each.
mutations NAME='':
    tests/mutations/run {{ NAME }}

# One recorded scenario, by a part of its file's name.
golden NAME:
    GOLDEN={{ NAME }} cargo test -p endpointd --test goldens -- --nocapture

# The demo: an API server in memory, the controller as its client, churn, and a check against an oracle.
demo *ARGS:
    cargo run --release -p loadtest -- demo {{ ARGS }}

# A profile under load, such as `just load steady --pods 20000`.
load *ARGS:
    cargo run --release -p loadtest -- run {{ ARGS }}

# Hours under churn, with audits: fails if memory, file descriptors, tasks or the queue drift. `just soak --hours 8`.
soak *ARGS:
    cargo build --release --workspace
    .ci/soak {{ ARGS }}

# Rolling updates between this commit's program and that of an earlier one, both ways: `just upgrade HEAD~1`.
upgrade REV='HEAD~1':
    .ci/upgrade {{ REV }}

# The checks of the manifests, with their flags held against the program's.
deploy:
    cargo build
    ENDPOINTD_BIN="$PWD/target/debug/endpointd" .ci/deploy

# All that CI runs, in its order.
ci:
    .ci/run

# What one machine can build of a release, into target/release-files: CONTRIBUTING.md says what else belongs to it.
release:
    .ci/release

# endpointd against real binaries of a control plane, in the folder $KUBE_BIN: `just real --quick`, or `just real scenarios`.
real *ARGS:
    .ci/real {{ ARGS }}
