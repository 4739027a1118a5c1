//! Results stored by content, with the file versions they are valid for.
//!
//! A fingerprint samples a file and so survives renames, but a repair in place can leave every sampled byte unchanged.
//! Each record therefore lists the versions (`SourceFile::version`) it was found for, and is valid for those only.

use serde::{Deserialize, Serialize};

/// Most versions of one record: copies of one file, or a file before and after a rename.
const MAX_VERSIONS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versioned<T> {
    value: T,
    /// Newest last.
    versions: Vec<String>,
}

impl<T: PartialEq> Versioned<T> {
    /// The value, if it is valid for this version.
    pub fn for_version(&self, version: &str) -> Option<&T> {
        self.versions.iter().any(|valid_version| valid_version == version).then_some(&self.value)
    }

    /// A record with a new value. It keeps the versions of the former record if `is_same` finds both values equal.
    pub fn with_version(old: Option<Self>, value: T, version: &str, is_same: impl Fn(&T, &T) -> bool) -> Self {
        let mut versions = old.filter(|old| is_same(&old.value, &value)).map_or_else(Vec::new, |old| old.versions);
        versions.retain(|valid_version| valid_version != version);
        versions.push(version.to_owned());
        let excess = versions.len().saturating_sub(MAX_VERSIONS);
        versions.drain(..excess);
        Self { value, versions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_valid_for_its_versions_only() {
        let same = |a: &i32, b: &i32| a == b;
        let first = Versioned::with_version(None, 7, "a", same);
        assert_eq!((first.for_version("a"), first.for_version("b")), (Some(&7), None));
        let renamed = Versioned::with_version(Some(first.clone()), 7, "b", same);
        assert_eq!((renamed.for_version("a"), renamed.for_version("b")), (Some(&7), Some(&7)));
        let repaired = Versioned::with_version(Some(renamed), 8, "c", same);
        assert_eq!((repaired.for_version("a"), repaired.for_version("c")), (None, Some(&8)));
        let many = (0..20).fold(first, |record, n| Versioned::with_version(Some(record), 7, &n.to_string(), same));
        assert_eq!(many.versions.len(), MAX_VERSIONS);
        assert_eq!((many.for_version("a"), many.for_version("19")), (None, Some(&7)));
    }
}
