//! One-time codes by which workers on other machines are enrolled.

use jiff::{SignedDuration, Timestamp};

/// Characters of a code: letters and digits that cannot be mistaken for one another.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Characters of a code, 40 random bits.
pub const CODE_LENGTH: usize = 8;

/// How long a code is valid.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// Wrong codes after which the valid one is void.
const MAX_WRONG_CODES: u32 = 5;

/// The code that is valid now, if there is one. A new code replaces it.
#[derive(Debug, Default)]
pub struct EnrolmentCode {
    valid: Option<ValidCode>,
}

#[derive(Debug)]
struct ValidCode {
    code: String,
    expires_at: Timestamp,
    wrong_codes: u32,
}

impl EnrolmentCode {
    /// Makes a code of these random bytes; returns it with its expiry.
    pub fn create(&mut self, random: [u8; CODE_LENGTH], now: Timestamp) -> (String, Timestamp) {
        let code: String = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
        let expires_at = now.saturating_add(CODE_LIFETIME).unwrap_or(Timestamp::MAX);
        self.valid = Some(ValidCode { code: code.clone(), expires_at, wrong_codes: 0 });
        (code, expires_at)
    }

    /// Whether `input` is the valid code, ignoring case, spaces and hyphens. A right code is used up; the fifth wrong one makes
    /// it void.
    pub fn redeem(&mut self, input: &str, now: Timestamp) -> bool {
        let Some(valid) = &mut self.valid else { return false };
        if now >= valid.expires_at {
            self.valid = None;
            return false;
        }
        let normalised = input.chars().filter(|c| !c.is_whitespace() && *c != '-').map(|c| c.to_ascii_uppercase());
        let is_right = normalised.eq(valid.code.chars());
        valid.wrong_codes += u32::from(!is_right);
        if is_right || valid.wrong_codes >= MAX_WRONG_CODES {
            self.valid = None;
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_code_is_valid_once_for_ten_minutes() {
        let mut code = EnrolmentCode::default();
        assert!(!code.redeem("", at(0)), "no code was made");
        let (text, expires_at) = code.create([0, 1, 31, 32, 255, 7, 8, 9], at(0));
        assert_eq!((text.as_str(), expires_at), ("AB9A9HJK", at(600)));
        assert!(code.redeem(" ab9a-9hjk", at(599)));
        assert!(!code.redeem(&text, at(599)), "it was used");
        let (text, _) = code.create([5; 8], at(0));
        assert!(!code.redeem(&text, at(600)), "it has expired");
        let (text, _) = code.create([5; 8], at(0));
        code.create([6; 8], at(1));
        assert!(!code.redeem(&text, at(2)), "another one replaced it");
    }

    #[test]
    fn the_fifth_wrong_code_makes_the_right_one_void() {
        for (wrong_codes, is_accepted) in [(4, true), (5, false)] {
            let mut code = EnrolmentCode::default();
            let (text, _) = code.create([5; 8], at(0));
            for _ in 0..wrong_codes {
                assert!(!code.redeem("AAAAAAAA", at(1)));
            }
            assert_eq!(code.redeem(&text, at(1)), is_accepted);
        }
    }
}
