//! Languages of streams as files write them (ISO 639), and as BCP-47 has them.

/// The BCP-47 tag for a language as files write it; None for what is no language code.
pub fn language_tag(text: &str) -> Option<String> {
    let (primary, rest) = text.split_once(['-', '_']).map_or((text, None), |(primary, rest)| (primary, Some(rest)));
    let primary = primary.to_ascii_lowercase();
    if !(2..=3).contains(&primary.len()) || !primary.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let short = LANGUAGES.iter().find_map(|pair| pair.strip_prefix(&*primary)?.strip_prefix(':'));
    let short = short.unwrap_or(primary.as_str());
    match rest {
        Some(rest) if rest.split(['-', '_']).all(|part| (1..=8).contains(&part.len()) && part.is_ascii()) => {
            Some(format!("{short}-{}", rest.replace('_', "-")))
        }
        Some(_) => None,
        None => Some(short.to_owned()),
    }
}

/// The code of ISO 639-2/T for a tag of [`language_tag`], whose subtags are ignored; None if it has none or is not in the table.
pub fn terminology_code(tag: &str) -> Option<[u8; 3]> {
    let primary = tag.split('-').next().filter(|primary| primary.bytes().all(|byte| byte.is_ascii_lowercase()))?;
    let is_terminology = |code: &&str| !BIBLIOGRAPHIC.contains(code);
    let in_table = LANGUAGES.iter().filter_map(|pair| pair.split_once(':'));
    let long = in_table.filter(|(_, short)| *short == primary).map(|(long, _)| long).find(is_terminology);
    long.unwrap_or(primary).as_bytes().try_into().ok()
}

/// The codes of ISO 639-2/B that differ from those of ISO 639-2/T.
const BIBLIOGRAPHIC: [&str; 17] = [
    "alb", "arm", "baq", "chi", "cze", "dut", "fre", "geo", "ger", "gre", "ice", "mac", "may", "per", "rum", "slo",
    "wel",
];

/// ISO 639-2 codes, both kinds, each before the shorter ISO 639-1 code that BCP-47 requires instead.
const LANGUAGES: [&str; 74] = [
    "afr:af", "alb:sq", "ara:ar", "arm:hy", "baq:eu", "bel:be", "ben:bn", "bos:bs", "bul:bg", "cat:ca", "ces:cs",
    "chi:zh", "cze:cs", "cym:cy", "dan:da", "deu:de", "dut:nl", "ell:el", "eng:en", "est:et", "eus:eu", "fas:fa",
    "fin:fi", "fra:fr", "fre:fr", "geo:ka", "ger:de", "gle:ga", "glg:gl", "gre:el", "heb:he", "hin:hi", "hrv:hr",
    "hun:hu", "hye:hy", "ice:is", "ind:id", "isl:is", "ita:it", "jpn:ja", "kat:ka", "kor:ko", "lav:lv", "lit:lt",
    "ltz:lb", "mac:mk", "may:ms", "mkd:mk", "msa:ms", "nld:nl", "nob:nb", "nor:no", "per:fa", "pol:pl", "por:pt",
    "ron:ro", "rum:ro", "rus:ru", "slk:sk", "slo:sk", "slv:sl", "spa:es", "sqi:sq", "srp:sr", "swe:sv", "tam:ta",
    "tel:te", "tha:th", "tur:tr", "ukr:uk", "urd:ur", "vie:vi", "wel:cy", "zho:zh",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_iso_639_2_become_one_tag() {
        for (text, tag) in [
            ("ger", Some("de")),
            ("DEU", Some("de")),
            ("de", Some("de")),
            ("gsw", Some("gsw")),
            ("pt-BR", Some("pt-BR")),
            ("por_br", Some("pt-br")),
            ("german", None),
            ("d", None),
            ("de-", None),
            ("d1", None),
            ("", None),
        ] {
            assert_eq!(language_tag(text).as_deref(), tag, "{text}");
        }
    }

    #[test]
    fn a_tag_has_the_terminology_code() {
        for (tag, code) in [
            ("de", Some(b"deu")),
            ("pt-BR", Some(b"por")),
            ("cs", Some(b"ces")),
            ("sq", Some(b"sqi")),
            ("gsw", Some(b"gsw")),
            ("xx", None),
            ("DE", None),
            ("", None),
        ] {
            assert_eq!(terminology_code(tag).as_ref(), code, "{tag}");
        }
        for pair in LANGUAGES {
            let (code, tag) = pair.split_once(':').unwrap();
            let is_bibliographic = BIBLIOGRAPHIC.contains(&code);
            assert_eq!(terminology_code(tag).unwrap() == code.as_bytes(), !is_bibliographic, "{pair}");
        }
    }
}
