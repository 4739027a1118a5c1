//! Text folded for comparison: lower case, without diacritics and punctuation.

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
    let is_apostrophe = |c: char| matches!(c, '\'' | '’' | '`' | '´' | '\u{300}'..='\u{36f}');
    let split = text.split(move |c: char| !c.is_alphanumeric() && !is_apostrophe(c));
    let folded = split.map(move |word| {
        let mut folded = String::with_capacity(word.len());
        for c in word.chars().filter(|c| !is_apostrophe(*c)).flat_map(char::to_lowercase) {
            push_folded(c, &mut folded);
        }
        folded
    });
    folded.filter(|word| !word.is_empty())
}

/// A lower-case letter without its diacritics. Covers the letters of European languages in Latin script.
fn push_folded(c: char, folded: &mut String) {
    let plain = match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' | 'ạ'..='ặ' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' | 'ð' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' | 'ẹ'..='ệ' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ỉ' | 'ị' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ơ' | 'ọ'..='ợ' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ư' | 'ụ'..='ự' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' | 'ỳ'..='ỹ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ß' => return folded.push_str("ss"),
        'æ' => return folded.push_str("ae"),
        'œ' => return folded.push_str("oe"),
        'þ' => return folded.push_str("th"),
        other => other,
    };
    folded.push(plain);
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
