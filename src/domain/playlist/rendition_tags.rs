//! `EXT-X-MEDIA` tags (draft-pantos-hls-rfc8216bis section 4.4.6.1), and the rules for the members of a group.

use std::fmt::Write;

use super::attributes::{push_quoted, push_quoted_if, sanitize, yes_or_no};

/// `TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    Audio,
    Subtitles,
    ClosedCaptions,
}

impl MediaType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Audio => "AUDIO",
            Self::Subtitles => "SUBTITLES",
            Self::ClosedCaptions => "CLOSED-CAPTIONS",
        }
    }

    /// The name of a rendition without a name and a language.
    fn fallback_name(self) -> &'static str {
        match self {
            Self::Audio => "Audio",
            Self::Subtitles => "Subtitles",
            Self::ClosedCaptions => "Captions",
        }
    }
}

/// A member of a group: what describes it to viewers, and to a player that chooses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    media_type: MediaType,
    name: String,
    language: Option<String>,
    is_default: bool,
    characteristics: Option<&'static str>,
    is_forced: bool,
    /// A player may choose it by the viewer's settings.
    is_autoselected: bool,
}

impl GroupMember {
    pub fn new(media_type: MediaType, name: &str, language: Option<&str>) -> Self {
        let is_tag = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let language = language.filter(is_tag).map(str::to_owned);
        let name = sanitize(name).trim().to_owned();
        let fallback = || language.clone().unwrap_or_else(|| media_type.fallback_name().to_owned());
        Self {
            media_type,
            name: if name.is_empty() { fallback() } else { name },
            language,
            is_default: false,
            characteristics: None,
            is_forced: false,
            is_autoselected: false,
        }
    }

    pub fn with_characteristics(self, characteristics: Option<&'static str>) -> Self {
        Self { characteristics, ..self }
    }

    pub fn with_forced(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// Appends the tag without the attributes that differ between types, and without an end of line.
    pub fn push_tag(&self, text: &mut String, group: &str) {
        let _ = write!(text, "#EXT-X-MEDIA:TYPE={}", self.media_type.as_str());
        push_quoted(text, "GROUP-ID", group);
        push_quoted(text, "NAME", &self.name);
        let (default, autoselect) = (yes_or_no(self.is_default), yes_or_no(self.is_autoselected));
        let _ = write!(text, ",DEFAULT={default},AUTOSELECT={autoselect}");
        if self.media_type == MediaType::Subtitles {
            let _ = write!(text, ",FORCED={}", yes_or_no(self.is_forced));
        }
        push_quoted_if(text, "LANGUAGE", self.language.as_deref());
        push_quoted_if(text, "CHARACTERISTICS", self.characteristics);
    }

    /// The attributes that a player compares with the viewer's settings.
    fn selection(&self) -> (Option<&str>, bool, Option<&'static str>) {
        (self.language.as_deref(), self.is_forced, self.characteristics)
    }
}

/// Applies the rules for a group (section 4.4.6.1.1): names are unique, one member at most is the default, and members that a
/// player may choose by itself differ in language, `FORCED` or characteristics. Of equal ones that is the default, otherwise
/// the first.
pub fn apply_group_rules(members: &mut [GroupMember], default: Option<usize>) {
    for n in 0..members.len() {
        let name = members[n].name.clone();
        let is_taken = |name: &str| members[..n].iter().any(|member| member.name == name);
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let unique = std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name));
        members[n].name = unique.unwrap_or(name);
        members[n].is_default = default == Some(n);
    }
    for n in 0..members.len() {
        let own = members[n].selection();
        let is_equal = |member: &GroupMember| member.selection() == own;
        let precedes = members[..n].iter().any(is_equal) || members[n..].iter().any(|it| it.is_default && is_equal(it));
        members[n].is_autoselected = members[n].is_default || !precedes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(name: &str, language: Option<&str>) -> GroupMember {
        GroupMember::new(MediaType::Audio, name, language)
    }

    #[test]
    fn names_are_clean_and_unique() {
        let names = ["Say \"hi\"\n", "", " ", "Say 'hi'", "Audio 2"];
        let mut members: Vec<GroupMember> = names.iter().map(|name| member(name, None)).collect();
        members.push(member("", Some("de")));
        members.push(member("x", Some("d\"e")));
        apply_group_rules(&mut members, None);
        let found: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(found, ["Say 'hi'", "Audio", "Audio 2", "Say 'hi' 2", "Audio 2 2", "de", "x"]);
        assert_eq!(members[6].language, None);
    }

    #[test]
    fn one_of_equal_members_is_selected_automatically() {
        let selected = |languages: [&str; 3], default| {
            let mut members = languages.map(|language| member("n", Some(language)));
            apply_group_rules(&mut members, default);
            members.map(|member| member.is_autoselected)
        };
        assert_eq!(selected(["de", "en", "de"], Some(0)), [true, true, false]);
        assert_eq!(selected(["de", "en", "de"], Some(2)), [false, true, true]);
        assert_eq!(selected(["de", "de", "de"], None), [true, false, false]);
    }

    proptest! {
        #[test]
        fn every_group_follows_the_rules(
            names in proptest::collection::vec(("[ab\"\u{1}]{0,2}", 0usize..3), 1..9), default in proptest::option::of(0usize..9),
        ) {
            let languages = [None, Some("de"), Some("en")];
            let mut members: Vec<GroupMember> =
                names.iter().map(|(name, language)| member(name, languages[*language])).collect();
            apply_group_rules(&mut members, default);
            for (n, one) in members.iter().enumerate() {
                prop_assert!(one.is_autoselected || !one.is_default);
                for other in &members[..n] {
                    prop_assert_ne!(&one.name, &other.name);
                    prop_assert!(!(one.is_default && other.is_default));
                    let both = one.is_autoselected && other.is_autoselected;
                    prop_assert!(!both || one.selection() != other.selection());
                }
            }
        }
    }
}
