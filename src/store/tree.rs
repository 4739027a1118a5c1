//! The trees of the store: one kind of record each.

macro_rules! trees {
    ($($name:ident $text:literal $journaled:literal),+ $(,)?) => {
        /// A kind of record, stored in a tree of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tree { $($name),+ }

        impl Tree {
            pub(super) const ALL: &[Tree] = &[$(Tree::$name),+];

            /// Name on disk.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Tree::$name => $text),+ }
            }

            /// Whether changes go to the journal. Records of the other trees can be computed again.
            pub(super) const fn journaled(self) -> bool {
                match self { $(Tree::$name => $journaled),+ }
            }
        }
    };
}

trees! {
    Meta "meta" false,
    Users "users" true,
    Logins "logins" true,
    Probes "probes" false,
    Preferences "preferences" true,
    Loudness "loudness" false,
    Progress "progress" true,
    Books "books" true,
    Channels "channels" true,
    Revisions "revisions" true,
    Checkpoints "marks" false,
    ClockIntervals "paces" true,
    ItemLists "lists" true,
    ChannelItems "items" true,
    Segmentations "cuts" true,
    StreamTokens "stream-tokens" true,
    Sources "sources" true,
    Audit "audit" true,
    Recordings "recordings" true,
    RecordingRules "recording-rules" true,
    Programmes "programmes" false,
    UploadedProgrammes "uploaded-programmes" true,
    Quarantine "quarantine" false,
    Catalogue "catalogue" false,
    Titles "titles" true,
    SkipMarks "skip-marks" false,
    SceneBreaks "scene-breaks" false,
    MediaFolders "media-folders" true,
    Workers "workers" true,
    Household "household" true,
    Sessions "sessions" true,
    QueueKeys "queue-keys" true,
}

impl Tree {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tree| tree.name() == name)
    }

    /// Trees whose records can be computed again; [`Self::Meta`] is a part of the index.
    pub(super) fn computed_trees() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|tree| !tree.journaled() && *tree != Self::Meta)
    }

    /// Whether every reader reads its records from the store; services keep those of the other trees in memory.
    pub(super) const fn is_read_from_store(self) -> bool {
        matches!(self, Self::Progress | Self::Books | Self::Preferences | Self::Segmentations)
    }

    pub(super) fn journaled_trees() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|tree| tree.journaled())
    }
}
