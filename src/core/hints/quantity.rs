//! Parses the API's quantities, as far as CPU needs them.

/// Parses a quantity (`4`, `3920m`, `1.5`, `2k`, `1e3`, `1Ki`) into thousandths, rounded up as upstream does. `None` if
/// it is not a quantity, or negative. One that is too large becomes the largest.
pub fn milli_cpu(text: &str) -> Option<i64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (tens, twos) = scale(suffix)?;
    Some(round_up(whole, fraction, tens + 3, twos))
}

/// Returns the powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    let scale = match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Beyond three digits, the result is 0 rounded up, or the largest, in any case.
            let size: i32 = digits.parse().unwrap_or(999).min(999);
            (if exponent.starts_with('-') { -size } else { size }, 0)
        }
    };
    Some(scale)
}

/// Returns `whole.fraction × 10^tens × 2^twos`, rounded up.
fn round_up(whole: &str, fraction: &str, tens: i32, twos: u32) -> i64 {
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .map(|b| u128::from(b - b'0'));
    // The number of digits before the point once it is moved.
    let point = i64::try_from(whole.len()).map_or(i64::MAX, |len| len.saturating_add(tens.into()));
    let (mut value, mut rest, mut rest_scale) = (0u128, 0u128, 1u128);
    let mut lost = false;
    let mut count = 0i64;
    for digit in digits {
        if count < point {
            value = value.saturating_mul(10).saturating_add(digit);
        } else if rest_scale < 10u128.pow(18) {
            (rest, rest_scale) = (rest * 10 + digit, rest_scale * 10);
        } else {
            lost |= digit != 0;
        }
        count += 1;
    }
    while count < point && value != 0 {
        value = value.saturating_mul(10);
        count += 1;
    }
    // Zeros between the point and the first digit.
    for _ in point..0 {
        if rest_scale >= 10u128.pow(18) {
            lost |= rest != 0;
            rest = 0;
            break;
        }
        rest_scale *= 10;
    }
    let factor = 1u128 << twos;
    let scaled_rest = rest.saturating_mul(factor);
    let value = value
        .saturating_mul(factor)
        .saturating_add(scaled_rest / rest_scale)
        .saturating_add(u128::from(lost || !scaled_rest.is_multiple_of(rest_scale)));
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::milli_cpu;

    #[test]
    fn reads_quantities() {
        for (text, milli) in [
            ("4", 4_000),
            ("3920m", 3_920),
            ("1.5", 1_500),
            ("2k", 2_000_000),
            ("0", 0),
            ("0.0", 0),
            ("000", 0),
            (".5", 500),
            ("5.", 5_000),
            ("+2", 2_000),
            ("0.0001", 1),
            ("100u", 1),
            ("1n", 1),
            ("1999u", 2),
            ("1.0001", 1_001),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("1E", i64::MAX),
            ("1e-3", 1),
            ("25e-1", 2_500),
            ("1e-999999999999", 1),
            ("0e9", 0),
            ("1Ki", 1_024_000),
            ("0.5Ki", 512_000),
            ("0.0009765625Ki", 1_000),
            ("1Ei", i64::MAX),
            ("9223372036854775807", i64::MAX),
            ("123456789012345678901234567890123456789012345", i64::MAX),
            ("0.00000000000000000000000000000000000000000001", 1),
        ] {
            assert_eq!(milli_cpu(text), Some(milli), "{text}");
        }
        for text in [
            "", ".", "-1", "m", "1.2.3", "1x", "1e", "1e+", "1e1.5", "1 ", "4Km", "1mi", "0x1",
        ] {
            assert_eq!(milli_cpu(text), None, "{text}");
        }
    }
}
