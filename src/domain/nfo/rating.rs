//! Ratings in an NFO file.

use serde::{Deserialize, Serialize};

use super::element::Element;
use super::fields::MAX_SOURCE_CHARS;

/// Most ratings of a record.
pub(super) const MAX_RATINGS: usize = 8;

/// Scale of all values.
const SCALE: f64 = 10.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rating {
    /// In lower case: `imdb`, `themoviedb`; `default` if it is not named, `user` for the library's owner.
    pub source: String,
    /// Above 0, at most 10, with two decimal places; other scales are converted.
    pub value: f64,
    pub votes: Option<u32>,
}

impl Rating {
    /// The ratings of a record, the default one first.
    pub(super) fn of_record(record: &Element) -> Vec<Self> {
        let named = record.children_named("ratings").flat_map(|list| list.children_named("rating"));
        let mut named: Vec<(bool, Self)> = named
            .filter_map(|rating| {
                let source = rating.attribute("name").unwrap_or("default");
                let parsed = Self::parse(source, rating.attribute("max"), rating, "value", rating)?;
                Some((rating.attribute("default") != Some("true"), parsed))
            })
            .take(MAX_RATINGS)
            .collect();
        named.sort_by_key(|(is_secondary, _)| *is_secondary);
        let mut ratings: Vec<Self> = named.into_iter().map(|(_, rating)| rating).collect();
        if ratings.is_empty() {
            ratings.extend(Self::parse("default", None, record, "rating", record));
        }
        ratings.extend(Self::parse("user", None, record, "userrating", &Element::default()));
        ratings.truncate(MAX_RATINGS);
        ratings
    }

    fn parse(source: &str, max: Option<&str>, parent: &Element, value: &str, votes_parent: &Element) -> Option<Self> {
        let number = |text: String| text.replace(',', ".").parse::<f64>().ok().filter(|number| number.is_finite());
        let max = max.and_then(|max| number(max.to_owned())).filter(|max| *max >= 1.0).unwrap_or(SCALE);
        let value = number(parent.child_text(value, 20)?)? * SCALE / max;
        let value = (value * 100.0).round() / 100.0;
        let votes = votes_parent.child_text("votes", 20).map(|text| text.replace([',', '.', ' '], ""));
        let source = source.trim().to_lowercase().chars().take(MAX_SOURCE_CHARS).collect();
        let votes = votes.and_then(|votes| votes.parse().ok()).filter(|votes| *votes > 0);
        (value > 0.0 && value <= SCALE).then_some(Self { source, value, votes })
    }

    pub(super) fn weight_bytes(&self) -> usize {
        size_of::<Self>() + self.source.len()
    }
}
