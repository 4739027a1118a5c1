//! Strict decoding of path and query, and the check of integers in bodies.

use std::fmt::Display;
use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;

use crate::error::{Code, Error, Result};

/// Percent-decodes.
///
/// # Errors
/// `BAD_REQUEST` for a `%` without two hex digits, and for text that is not UTF-8.
pub fn percent_decode(raw: &str) -> Result<String> {
    let malformed = || Error::new(Code::BadRequest, "the URL has a % that is not followed by two hex digits");
    if !raw.contains('%') {
        return Ok(raw.to_owned());
    }
    let mut rest = raw.as_bytes();
    while let Some(percent_index) = rest.iter().position(|byte| *byte == b'%') {
        let hex = rest.get(percent_index + 1..percent_index + 3).ok_or_else(malformed)?;
        if !hex.iter().all(u8::is_ascii_hexdigit) {
            return Err(malformed());
        }
        rest = &rest[percent_index + 3..];
    }
    // One allocation: the decoder has no size hint.
    let mut text = Vec::with_capacity(raw.len());
    text.extend(percent_decode_str(raw));
    String::from_utf8(text).map_err(|_| Error::new(Code::BadRequest, "the URL is not UTF-8"))
}

/// The parameters of a query, `+` meaning a space.
///
/// # Errors
/// `BAD_REQUEST` for bad encoding and for a parameter repeated with a different value, because either could be meant.
/// A parameter that authenticates the request must not be repeated at all.
pub fn parse_query(raw: &str) -> Result<Vec<(String, String)>> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (form_decode(name)?, form_decode(value)?);
        if let Some((_, existing)) = parameters.iter().find(|(existing, _)| *existing == name) {
            if *existing == value && !AUTHENTICATION_PARAMETERS.contains(&name.as_str()) {
                continue;
            }
            return Err(Error::new(Code::BadRequest, format!("{name} must be given only once")));
        }
        if parameters.len() == MAX_PARAMETERS {
            return Err(Error::new(Code::BadRequest, format!("the query has more than {MAX_PARAMETERS} parameters")));
        }
        parameters.push((name, value));
    }
    Ok(parameters)
}

fn form_decode(raw: &str) -> Result<String> {
    if raw.contains('+') { percent_decode(&raw.replace('+', " ")) } else { percent_decode(raw) }
}

/// Checks that a number is in a range, if it is given.
///
/// # Errors
/// `VALIDATION_ERROR` naming the field and the range.
pub fn check_integer<T: PartialOrd + Display>(field: &str, value: Option<T>, range: RangeInclusive<T>) -> Result<()> {
    if value.is_none_or(|value| range.contains(&value)) {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("must be an integer from {} to {}", range.start(), range.end())))
}

/// The value that a word stands for.
///
/// # Errors
/// `VALIDATION_ERROR` naming the field and all words, if this one is not among them.
pub fn parse_choice<T: Copy>(field: &str, word: &str, choices: &[(&str, T)]) -> Result<T> {
    let found = choices.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let (others, last) = names.split_at(names.len().saturating_sub(1));
        Error::invalid_field(field, format!("must be {} or {}", others.join(", "), last.concat()))
    })
}

/// Parameters that authenticate a request. If one were repeated, two readers could each trust a different value.
const AUTHENTICATION_PARAMETERS: [&str; 4] = ["token", "exp", "sig", "st"];

/// Most parameters of one query; no route has as many.
const MAX_PARAMETERS: usize = 64;

/// Deserializes a field of a change: None when it is absent (with `#[serde(default)]`), `Some(None)` for null.
pub fn present<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_names_all_words_it_accepts() {
        let choices = [("true", 1), ("false", 2), ("all", 3)];
        assert_eq!(parse_choice("f", "false", &choices).unwrap(), 2);
        let message = |count| parse_choice("f", "True", &choices[..count]).unwrap_err().message;
        assert!(message(3).ends_with("must be true, false or all"), "{}", message(3));
        assert!(message(2).ends_with("must be true or false"), "{}", message(2));
    }

    #[test]
    fn queries_are_decoded_strictly() {
        let parse = |raw| parse_query(raw).map_err(|error| error.code);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parse("a=1+2&b=%C3%B6%2B&c&=d&"),
            Ok(vec![pair("a", "1 2"), pair("b", "ö+"), pair("c", ""), pair("", "d")])
        );
        assert_eq!(parse("a=1&b=2&%61=1&a=1"), Ok(vec![pair("a", "1"), pair("b", "2")]), "the same value again");
        for malformed in [
            "a=%",
            "a=%4",
            "a=%zz",
            "a=%ff",
            "a=1&%61=2",
            "a=1&b=1&a=2",
            "sig=x&sig=x",
            "st=x&%73t=x",
            "token=x&a=1&token=x",
            "exp=1&exp=1",
            &(0..65).map(|n| format!("{n}&")).collect::<String>(),
        ] {
            assert_eq!(parse(malformed), Err(Code::BadRequest), "{malformed}");
        }
    }
}
