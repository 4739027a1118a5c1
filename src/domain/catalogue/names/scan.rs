//! Numbers and words at positions of a name.

use std::ops::RangeInclusive;

/// The number at `at` with that many digits, and its end.
pub fn number_at(text: &[u8], at: usize, digits: RangeInclusive<usize>) -> Option<(u32, usize)> {
    let len = text.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !digits.contains(&len) {
        return None;
    }
    let value = text[at..at + len].iter().fold(0, |value: u32, digit| value * 10 + u32::from(digit - b'0'));
    Some((value, at + len))
}

/// Whether no letter or digit is before `at`. Bytes beyond ASCII belong to letters.
pub fn is_word_start(text: &[u8], at: usize) -> bool {
    at == 0 || !is_word_byte(text[at - 1])
}

/// Whether no letter or digit is at `at`.
pub fn is_word_end(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| !is_word_byte(*byte))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The position after at most `max` bytes of `separators`.
pub fn skip(text: &[u8], at: usize, separators: &[u8], max: usize) -> usize {
    let rest = text.get(at..).unwrap_or(&[]);
    at + rest.iter().take(max).take_while(|byte| separators.contains(byte)).count()
}

/// The end of one of `words` at `at`; the longest counts.
pub fn word_at(text: &[u8], at: usize, words: &[&str]) -> Option<usize> {
    let rest = text.get(at..)?;
    let found = words.iter().filter(|word| rest.starts_with(word.as_bytes())).map(|word| word.len()).max()?;
    Some(at + found)
}
