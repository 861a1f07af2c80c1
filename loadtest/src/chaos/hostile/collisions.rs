//! Label keys that collide in a hash that is publicly known.

/// Keys of 32 bytes, all with the same hash in `rustc-hash` 2, which has no secret: those of one `series` differ from those
/// of others.
///
/// It takes such a key as four words `a b c d` and computes `t = mix(S1 ^ a, P ^ b)` and then `mix(S2 ^ c, t ^ d)`,
/// where `mix` multiplies. An attacker who chooses `d = t` makes the last factor nought, whatever `c` is. `t` must
/// consist of letters that a label may have, which it does for one `a b` in some ten thousands.
pub(super) fn keys(series: u64, count: usize) -> Vec<String> {
    const S1: u64 = 0x243f_6a88_85a3_08d3;
    const P: u64 = 0xa409_3822_299f_31d0;
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut random = fastrand::Rng::with_seed(series);
    let (head, tail) = loop {
        let head: [u8; 16] = std::array::from_fn(|_| LETTERS[random.usize(..LETTERS.len())]);
        let [a, b] = [0, 8].map(|at| {
            let word: [u8; 8] = head[at..at + 8].try_into().expect("eight of sixteen bytes");
            u64::from_le_bytes(word)
        });
        let product = u128::from(S1 ^ a) * u128::from(P ^ b);
        let tail = (product as u64 ^ (product >> 64) as u64).to_le_bytes();
        if tail.iter().all(|byte| LETTERS.contains(byte)) {
            break (head, tail);
        }
    };
    (0..count)
        .map(|number| {
            let middle = format!("{number:08}");
            let key = [&head[..], middle.as_bytes(), &tail].concat();
            String::from_utf8(key).expect("letters and digits are ASCII")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::keys;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn keys_collide_in_the_hash_that_they_are_made_for() {
        let mut all = BTreeSet::new();
        let mut hashes = BTreeSet::new();
        for series in 0..4 {
            for key in keys(series, 1000) {
                assert!(
                    key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                    "{key}"
                );
                hashes.insert(rustc_hash::FxBuildHasher.hash_one(&*key));
                all.insert(key);
            }
        }
        assert_eq!((all.len(), hashes.len()), (4000, 1));
    }
}
