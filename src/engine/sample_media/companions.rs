//! The files beside the samples: descriptions, posters, backdrops and covers.

/// A file of `assets/demo`.
macro_rules! demo_file {
    ($name:literal) => {
        include_bytes!(concat!("../../../assets/demo/", $name))
    };
}

/// Images that samples are made from, by name in the work folder.
pub(super) const INPUT_IMAGES: [(&str, &[u8]); 2] =
    [("lighthouse.jpg", demo_file!("lighthouse-backdrop.jpg")), ("cover.jpg", demo_file!("by-the-fire.jpg"))];

/// Files beside the samples, by path in the sample folder.
pub(super) const COMPANIONS: [(&str, &[u8]); 16] = [
    ("Films/Ember (2026).nfo", demo_file!("ember.nfo")),
    ("Films/Ember (2026)-poster.jpg", demo_file!("ember-poster.jpg")),
    ("Films/Ember (2026)-fanart.jpg", demo_file!("ember-backdrop.jpg")),
    ("Films/Tides (2026).nfo", demo_file!("tides.nfo")),
    ("Films/Tides (2026)-poster.jpg", demo_file!("tides-poster.jpg")),
    ("Films/Tides (2026)-fanart.jpg", demo_file!("tides-backdrop.jpg")),
    ("Films/Night Train (2026).nfo", demo_file!("night-train.nfo")),
    ("Films/Night Train (2026)-poster.jpg", demo_file!("night-train-poster.jpg")),
    ("Films/Night Train (2026)-fanart.jpg", demo_file!("night-train-backdrop.jpg")),
    ("Series/The Lighthouse/tvshow.nfo", demo_file!("lighthouse.nfo")),
    ("Series/The Lighthouse/poster.jpg", demo_file!("lighthouse-poster.jpg")),
    ("Series/The Lighthouse/fanart.jpg", demo_file!("lighthouse-backdrop.jpg")),
    ("Series/The Lighthouse/Season 01/The Lighthouse S01E01 Landfall.nfo", demo_file!("lighthouse-1.nfo")),
    ("Series/The Lighthouse/Season 01/The Lighthouse S01E02 The Long Swell.nfo", demo_file!("lighthouse-2.nfo")),
    ("Series/The Lighthouse/Season 01/The Lighthouse S01E03 Lights Out.nfo", demo_file!("lighthouse-3.nfo")),
    ("Music/Hearthcast/Slow Evenings/cover.jpg", demo_file!("slow-evenings.jpg")),
];
