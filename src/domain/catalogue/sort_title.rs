//! Titles without their article, for sorting.

/// Articles that do not count, in lower case. `die` is also an English verb; [`VERB_AFTER_DIE`] has its titles.
const ARTICLES: [&str; 18] = [
    "the", "a", "an", "der", "die", "das", "ein", "eine", "le", "la", "les", "un", "une", "el", "los", "las", "il",
    "lo",
];

/// Words after an English `die`.
const VERB_AFTER_DIE: [&str; 7] = ["hard", "another", "young", "alone", "monster", "laughing", "fighting"];

/// Names that begin with an article.
const NAMES: [&str; 6] = ["la la", "el dorado", "el paso", "los angeles", "las vegas", "le mans"];

/// The title without a leading article; the title itself if nothing would be left.
pub fn sort_title(title: &str) -> &str {
    let lower = title.to_lowercase();
    for elided in ["l'", "l’"] {
        if lower.starts_with(elided) && lower.len() == title.len() {
            return title[elided.len()..].trim_start();
        }
    }
    let Some((article, rest)) = title.split_once(' ') else { return title };
    let rest = rest.trim_start();
    let first = rest.split([' ', ',', ':']).next().unwrap_or("").to_lowercase();
    let is_verb = article.eq_ignore_ascii_case("die") && VERB_AFTER_DIE.contains(&first.as_str());
    let is_name = NAMES.iter().any(|name| lower.starts_with(name));
    let is_article = ARTICLES.iter().any(|known| article.eq_ignore_ascii_case(known));
    if is_article && !is_verb && !is_name && rest.chars().any(char::is_alphanumeric) { rest } else { title }
}

#[cfg(test)]
mod tests {
    use super::sort_title;

    #[test]
    fn articles_do_not_count() {
        for (title, expected) in [
            ("The Matrix", "Matrix"),
            ("Das Boot", "Boot"),
            ("Die Welle", "Welle"),
            ("Die Hard", "Die Hard"),
            ("Die, Monster, Die!", "Die, Monster, Die!"),
            ("L'Avventura", "Avventura"),
            ("L’Âge d’or", "Âge d’or"),
            ("La La Land", "La La Land"),
            ("La Haine", "Haine"),
            ("Los Angeles Plays Itself", "Los Angeles Plays Itself"),
            ("A", "A"),
            ("The", "The"),
            ("The ...", "The ..."),
            ("Theodora", "Theodora"),
            ("Il Postino", "Postino"),
            ("", ""),
        ] {
            assert_eq!(sort_title(title), expected, "{title}");
        }
    }
}
