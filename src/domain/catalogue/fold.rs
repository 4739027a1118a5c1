//! Text folded for comparison: lower case, without diacritics and punctuation.

use unicode_normalization::UnicodeNormalization as _;

/// The letters of a text in lower case without diacritics, its digits, and one space between words. `Amélie & Çelik` becomes
/// `amelie celik`.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in words(text) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.push_str(&word);
    }
    folded
}

/// The folded words of a text. An apostrophe does not end a word: `don't` is `dont`.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let is_apostrophe = |c: char| matches!(c, '\'' | '’' | '`' | '´') || is_diacritic(c);
    let split = text.split(move |c: char| !c.is_alphanumeric() && !is_apostrophe(c));
    let folded = split.map(move |word| {
        let lower = word.chars().filter(|c| !is_apostrophe(*c)).flat_map(char::to_lowercase);
        let mut folded = String::with_capacity(word.len());
        // Some letters decompose for good, into a letter and a mark that would end the word.
        for c in lower.nfd().filter(|c| !is_diacritic(*c)).nfc().filter(|c| c.is_alphanumeric()) {
            push_plain(c, &mut folded);
        }
        folded
    });
    folded.filter(|word| !word.is_empty())
}

/// Marks of Latin, Greek and Cyrillic letters. Those of other scripts tell letters apart, as in Japanese.
fn is_diacritic(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// A lower-case letter, or the plain letters in its place that Unicode does not decompose it into.
fn push_plain(c: char, folded: &mut String) {
    let plain = match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'þ' => "th",
        'ð' | 'đ' => "d",
        'ħ' => "h",
        'ı' => "i",
        'ł' | 'ŀ' => "l",
        'ø' => "o",
        'ŧ' => "t",
        other => return folded.push(other),
    };
    folded.push_str(plain);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn diacritics_case_and_punctuation_are_folded() {
        for (text, expected) in [
            ("Amélie & Çelik", "amelie celik"),
            ("DIE GROẞE STRASSE", "die grosse strasse"),
            ("Łódź: Zażółć gęślą", "lodz zazolc gesla"),
            ("Don’t  Look_Up!", "dont look up"),
            ("S.W.A.T. 2", "s w a t 2"),
            ("七人の侍", "七人の侍"),
            ("がぎぐ 한국", "がぎぐ 한국"),
            ("ਫ਼", "ਫ"),
            ("Ёлки, Ǻrsta, Tiếng Việt, İzmir", "елки arsta tieng viet izmir"),
            ("e\u{301}te\u{301}", "ete"),
            ("!?", ""),
        ] {
            assert_eq!(fold(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(text in "\\PC{0,40}") {
            let folded = fold(&text);
            prop_assert_eq!(fold(&folded), folded);
        }
    }
}
