//! What is kept, one tree each.

macro_rules! trees {
    ($($name:ident $text:literal $journaled:literal),+ $(,)?) => {
        /// What is kept, one tree each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tree { $($name),+ }

        impl Tree {
            pub(super) const ALL: &[Tree] = &[$(Tree::$name),+];

            /// The name on disk.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Tree::$name => $text),+ }
            }

            /// Whether it is in the journal. What is not can be found again, and is.
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
    Indexes "indexes" false,
    Loudness "loudness" false,
    Progress "progress" true,
    Books "books" true,
    Channels "channels" true,
    Revisions "revisions" true,
    Marks "marks" false,
    Paces "paces" true,
    Lists "lists" true,
    Items "items" true,
    Cuts "cuts" true,
    StreamTokens "stream-tokens" true,
    Sources "sources" true,
    Audit "audit" true,
    Recordings "recordings" true,
    RecordingRules "recording-rules" true,
    Programmes "programmes" false,
    UploadedProgrammes "uploaded-programmes" true,
}

impl Tree {
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tree| tree.name() == name)
    }

    /// Those in the journal.
    pub(super) fn kept() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|tree| tree.journaled())
    }
}
