//! Seek previews: small images of a film in sheets, and the WebVTT file that says where each of them is.
//!
//! The form is the one that web players read: each cue names a sheet and a rectangle in it, `sheet#xywh=x,y,width,height` (Media
//! Fragments URI 1.0, section 4.2.2).

use std::fmt::Write as _;

use super::subtitles::format_time;

/// Images of a sheet, across and as many down.
const COLUMNS: usize = 6;

/// The same for a film whose keyframes are decoded cheaply: the start of ffmpeg, one for each sheet, takes most of the time there.
const CHEAP_COLUMNS: usize = 10;

/// Pixels of such a film at most.
const MAX_CHEAP_PIXELS: f64 = 1280.0 * 720.0;

/// Longest side of an image, pixels.
const MAX_SIDE: f64 = 240.0;
const MIN_SIDE: f64 = 32.0;

/// Images of a film that is shorter than half an hour, and the limits of the distance between two, seconds.
const IMAGES_PER_FILM: f64 = 180.0;
const MIN_INTERVAL: f64 = 2.0;
const MAX_INTERVAL: f64 = 10.0;

/// Most images of a film: a day at the longest distance.
const MAX_IMAGES: usize = 8640;

/// How the previews of a film are laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreviewLayout {
    /// From one image to the next, whole seconds.
    pub interval_seconds: f64,
    /// Of the film.
    pub images: usize,
    /// Width and height of an image, even numbers of pixels.
    pub size: (u32, u32),
    /// Images of a sheet, across and as many down.
    pub columns: usize,
    duration_seconds: f64,
}

impl PreviewLayout {
    /// `display_size` is that of the video, pixels; `is_indexed` whether its keyframes can be read without what lies between them.
    /// None for a film without a duration.
    pub fn new(duration_seconds: f64, display_size: (f64, f64), is_indexed: bool) -> Option<Self> {
        let (width, height) = display_size;
        let display_aspect = width / height;
        if !(duration_seconds > 0.0 && display_aspect > 0.0 && display_aspect.is_finite()) {
            return None;
        }
        let interval_seconds = (duration_seconds / IMAGES_PER_FILM).clamp(MIN_INTERVAL, MAX_INTERVAL).floor();
        let images = ((duration_seconds / interval_seconds).ceil() as usize).clamp(1, MAX_IMAGES);
        let even = |side: f64| (side.clamp(MIN_SIDE, MAX_SIDE) / 2.0).round() as u32 * 2;
        let size = match display_aspect >= 1.0 {
            true => (even(MAX_SIDE), even(MAX_SIDE / display_aspect)),
            false => (even(MAX_SIDE * display_aspect), even(MAX_SIDE)),
        };
        let is_cheap = is_indexed && width * height <= MAX_CHEAP_PIXELS;
        let columns = if is_cheap { CHEAP_COLUMNS } else { COLUMNS };
        Some(Self { interval_seconds, images, size, columns, duration_seconds })
    }

    fn images_per_sheet(&self) -> usize {
        self.columns * self.columns
    }

    pub fn sheets(&self) -> usize {
        self.images.div_ceil(self.images_per_sheet())
    }

    /// The times of the images of a sheet, seconds; none for a sheet that does not exist.
    pub fn times_of(&self, sheet: usize) -> impl Iterator<Item = f64> + use<> {
        let first = sheet.saturating_mul(self.images_per_sheet()).min(self.images);
        let end = (first + self.images_per_sheet()).min(self.images);
        let interval = self.interval_seconds;
        (first..end).map(move |image| image as f64 * interval)
    }

    /// The WebVTT file with the address of each sheet.
    pub fn render_webvtt(&self, address_of: impl Fn(usize) -> String) -> String {
        let mut text = String::from("WEBVTT\n");
        let (width, height) = self.size;
        for image in 0..self.images {
            let start = image as f64 * self.interval_seconds;
            let is_last = image + 1 == self.images;
            let end = if is_last { self.duration_seconds.max(start) } else { start + self.interval_seconds };
            let (sheet, place) = (image / self.images_per_sheet(), image % self.images_per_sheet());
            let (x, y) = ((place % self.columns) as u32 * width, (place / self.columns) as u32 * height);
            let [start, end] = [start, end].map(|seconds| format_time((seconds * 1000.0).round() as i64, '.'));
            let address = address_of(sheet);
            let _ = write!(text, "\n{start} --> {end}\n{address}#xywh={x},{y},{width},{height}\n");
        }
        text
    }
}

/// The entry of `keyframes` (seconds, ascending) that is shown for each time: the last one before it, or the first one.
pub fn keyframe_places(keyframes: &[f64], times: impl Iterator<Item = f64>) -> Vec<usize> {
    // A keyframe that is late by the rounding of its container counts as on time.
    const TOLERANCE: f64 = 0.05;
    let place = |time: f64| keyframes.partition_point(|keyframe| *keyframe <= time + TOLERANCE).saturating_sub(1);
    times.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL_HD: (f64, f64) = (1920.0, 1080.0);

    #[test]
    fn the_distance_follows_the_length() {
        let layout = |duration| PreviewLayout::new(duration, FULL_HD, true).unwrap();
        let shape = |duration| (layout(duration).interval_seconds, layout(duration).images, layout(duration).sheets());
        assert_eq!(shape(0.5), (2.0, 1, 1));
        assert_eq!(shape(60.0), (2.0, 30, 1));
        assert_eq!(shape(900.0), (5.0, 180, 5));
        assert_eq!(shape(1800.0), (10.0, 180, 5));
        assert_eq!(shape(5400.0), (10.0, 540, 15));
        assert_eq!(layout(1e9).images, MAX_IMAGES);
        assert_eq!(layout(60.0).size, (240, 136));
        assert_eq!(PreviewLayout::new(60.0, (1080.0, 1920.0), true).unwrap().size, (136, 240));
        assert_eq!(PreviewLayout::new(60.0, (10_000.0, 10.0), true).unwrap().size, (240, 32));
        for (duration, size) in [(0.0, FULL_HD), (f64::NAN, FULL_HD), (60.0, (0.0, 2.0)), (60.0, (2.0, 0.0))] {
            assert_eq!(PreviewLayout::new(duration, size, true), None);
        }
    }

    #[test]
    fn every_moment_has_its_place_in_a_sheet() {
        let layout = PreviewLayout::new(81.5, FULL_HD, true).unwrap();
        let text = layout.render_webvtt(|sheet| format!("previews/{sheet}?v=1"));
        let cues: Vec<&str> = text.split("\n\n").collect();
        assert_eq!((cues[0], cues.len()), ("WEBVTT", 42));
        assert_eq!(cues[1], "00:00:00.000 --> 00:00:02.000\npreviews/0?v=1#xywh=0,0,240,136");
        assert_eq!(cues[8], "00:00:14.000 --> 00:00:16.000\npreviews/0?v=1#xywh=240,136,240,136");
        assert_eq!(cues[41], "00:01:20.000 --> 00:01:21.500\npreviews/1?v=1#xywh=960,0,240,136\n");
        assert_eq!(layout.times_of(1).collect::<Vec<_>>(), [72.0, 74.0, 76.0, 78.0, 80.0]);
        assert_eq!(layout.times_of(2).count() + layout.times_of(usize::MAX).count(), 0);
    }

    #[test]
    fn sheets_of_small_indexed_video_are_larger() {
        let hour = |size, is_indexed| PreviewLayout::new(3600.0, size, is_indexed).unwrap();
        let shape = |layout: PreviewLayout| (layout.columns, layout.sheets(), layout.times_of(0).count());
        assert_eq!(shape(hour((1280.0, 720.0), true)), (10, 4, 100));
        assert_eq!(shape(hour((1280.0, 720.0), false)), (6, 10, 36));
        assert_eq!(shape(hour(FULL_HD, true)), (6, 10, 36));
        let text = hour((720.0, 1280.0), true).render_webvtt(|sheet| sheet.to_string());
        assert!(text.contains("\n00:16:30.000 --> 00:16:40.000\n0#xywh=1224,2160,136,240\n"), "{text}");
        assert!(text.contains("\n00:16:40.000 --> 00:16:50.000\n1#xywh=0,0,136,240\n"), "{text}");
    }

    #[test]
    fn an_image_shows_the_keyframe_before_it() {
        let keyframes = [0.04, 5.0, 9.999, 20.0];
        let times = [0.0, 2.0, 4.99, 10.0, 19.0, 60.0].into_iter();
        assert_eq!(keyframe_places(&keyframes, times), [0, 0, 1, 2, 2, 3]);
        assert_eq!(keyframe_places(&[], [1.0].into_iter()), [0]);
    }
}
