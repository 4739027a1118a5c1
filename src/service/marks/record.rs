//! The analysis of an item as it is stored. It can be found again from the file.

use serde::{Deserialize, Serialize};

use super::Done;
use crate::domain::marks::Mark;

/// Version of the analysis: records of another one are made again.
pub(super) const MARKS_VERSION: u32 = 1;

/// Most marks of an item: a recap, an intro and credits from audio, credits from video.
const MAX_MARKS: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MarksRecord {
    pub version: u32,
    #[serde(rename = "compared")]
    pub is_compared: bool,
    #[serde(rename = "examined")]
    pub is_examined: bool,
    #[serde(rename = "searched", default)]
    pub is_searched: bool,
    #[serde(rename = "recap", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_recap_searched: bool,
    pub marks: Vec<Mark>,
}

impl Default for MarksRecord {
    fn default() -> Self {
        Self {
            version: MARKS_VERSION,
            is_compared: false,
            is_examined: false,
            is_searched: false,
            is_recap_searched: false,
            marks: Vec::new(),
        }
    }
}

impl MarksRecord {
    pub fn done(&self) -> Done {
        Done {
            is_compared: self.is_compared,
            is_examined: self.is_examined,
            is_searched: self.is_searched,
            is_recap_searched: self.is_recap_searched,
        }
    }

    pub fn add(&mut self, marks: impl IntoIterator<Item = Mark>) {
        self.marks.extend(marks);
        self.marks.truncate(MAX_MARKS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::records::assert_golden;

    #[test]
    fn records_keep_their_bytes() {
        assert_golden::<MarksRecord>("skip-marks");
    }
}
