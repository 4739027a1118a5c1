//! Identities of items, series and albums.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::ItemKind;
use super::fold::fold;

/// Identity of an item by content: that of watch progress, so it survives renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(u128);

impl ItemId {
    /// By a fingerprint, `f_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text.strip_prefix("f_")?).map(Self)
    }
}

impl std::fmt::Display for ItemId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "f_{:032x}", self.0)
    }
}

/// Identity of a series: its name, and the year in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(u128);

impl SeriesId {
    /// By its name and the year in it.
    pub fn new(name: &str, year: Option<u32>) -> Self {
        let year = year.map_or(String::new(), |year| year.to_string());
        let hash = blake3::hash(format!("{} {year}", fold(name)).as_bytes());
        Self(u128::from_be_bytes(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes")))
    }

    /// By its id, `s_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text.strip_prefix("s_")?).map(Self)
    }
}

impl std::fmt::Display for SeriesId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "s_{:032x}", self.0)
    }
}

/// Identity of an album, or of a book of several files: its folder and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlbumId(u128);

impl AlbumId {
    /// By kind, folder and folded title.
    pub(super) fn new(kind: ItemKind, folder: &str, title: &str) -> Self {
        let hash = blake3::hash(format!("{}\0{folder}\0{title}", kind.as_str()).as_bytes());
        Self(u128::from_be_bytes(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes")))
    }

    /// By its id, `a_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text.strip_prefix("a_")?).map(Self)
    }
}

impl std::fmt::Display for AlbumId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "a_{:032x}", self.0)
    }
}

fn parse_hex(text: &str) -> Option<u128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Stores an identity as its text.
macro_rules! stored_as_text {
    ($($id:ty),*) => {$(
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                Self::parse(&text).ok_or_else(|| de::Error::custom("is not an id"))
            }
        }
    )*};
}

stored_as_text!(ItemId, SeriesId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stored_as_their_texts() {
        let item = ItemId::parse("f_00000000000000000000000000000abc").unwrap();
        let json = serde_json::to_string(&item).unwrap();
        assert_eq!(json, "\"f_00000000000000000000000000000abc\"");
        assert_eq!(serde_json::from_str::<ItemId>(&json).unwrap(), item);
        for wrong in [
            "f_0",
            "s_00000000000000000000000000000abc",
            "f_00000000000000000000000000000ABC",
            "f_+0000000000000000000000000000abc",
        ] {
            assert_eq!(ItemId::parse(wrong), None, "{wrong}");
        }
        let series = SeriesId::new("Lost", Some(2004));
        assert_eq!(SeriesId::parse(&series.to_string()), Some(series));
        assert!(series == SeriesId::new("LOST", Some(2004)) && series != SeriesId::new("Lost", None));
    }
}
