//! Credits by their look: from their beginning on, nearly all frames to the end are text on black.

/// Width and height to which frames are reduced, pixels.
pub const FRAME_SIZE: (usize, usize) = (32, 18);
pub const FRAME_BYTES: usize = FRAME_SIZE.0 * FRAME_SIZE.1;

/// A pixel is dark below this brightness (0 to 255).
const DARK_BELOW: u8 = 48;

/// Share of dark pixels of a frame of credits; the rest is text.
const DARK_SHARE: f64 = 0.75;

/// Share of such frames from the beginning of credits to the end.
const MIN_SHARE: f64 = 0.9;

/// Share of such frames before credits, above which the film itself is too dark to tell.
const MAX_SHARE_BEFORE: f64 = 0.5;

/// The shortest credits, and the least that must be known of the film before them, frames.
const MIN_FRAMES: usize = 20;

/// The most certain that this is, percent: a night scene may end a film.
const MAX_CONFIDENCE_PERCENT: f64 = 80.0;

/// The number of the frame with which credits begin, of frames at equal distances that end with the film; and how certain that is,
/// percent. `frames` are grey images of [`FRAME_BYTES`] bytes, one after the other.
pub fn find_credits(frames: &[u8]) -> Option<(usize, u8)> {
    let is_dark: Vec<bool> = frames.chunks_exact(FRAME_BYTES).map(is_dark_frame).collect();
    let share = |range: &[bool]| range.iter().filter(|dark| **dark).count() as f64 / range.len().max(1) as f64;
    let last = is_dark.len().checked_sub(MIN_FRAMES)?;
    let begins = |at: &usize| is_dark[*at] && !is_dark[*at - 1] && share(&is_dark[*at..]) >= MIN_SHARE;
    let at = (MIN_FRAMES..=last).find(begins)?;
    let before = share(&is_dark[..at]);
    let certainty = share(&is_dark[at..]) * (1.0 - before / MAX_SHARE_BEFORE);
    (before <= MAX_SHARE_BEFORE).then_some((at, (MAX_CONFIDENCE_PERCENT * certainty).max(1.0) as u8))
}

fn is_dark_frame(pixels: &[u8]) -> bool {
    let dark = pixels.iter().filter(|pixel| **pixel < DARK_BELOW).count();
    dark as f64 >= DARK_SHARE * pixels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `s` a bright scene, `n` a black frame, `c` credits.
    fn frames(kinds: &str) -> Vec<u8> {
        let frame = |kind| match kind {
            's' => vec![130; FRAME_BYTES],
            'c' => (0..FRAME_BYTES).map(|n| if n % 6 == 0 { 150 } else { 4 }).collect(),
            _ => vec![0; FRAME_BYTES],
        };
        kinds.chars().flat_map(frame).collect()
    }

    #[test]
    fn credits_begin_with_the_last_change_to_dark_frames() {
        let find = |kinds: &str| find_credits(&frames(kinds)).map(|(at, _)| at);
        let scene = "s".repeat(60);
        assert_eq!(find(&format!("{scene}n{}", "c".repeat(40))), Some(60));
        assert_eq!(find(&format!("{scene}{}s{}", "c".repeat(20), "c".repeat(20))), Some(60), "a bright logo between");
        assert_eq!(find(&format!("{scene}nnnssss{scene}{}", "c".repeat(30))), Some(127), "a fade in the film");
        assert_eq!(find(&format!("{scene}{}", "c".repeat(10))), None, "too short");
        assert_eq!(find(&format!("{scene}{}{scene}", "c".repeat(30))), None, "a scene after them");
        assert_eq!(find(&format!("{scene}{}{}", "n".repeat(70), "c".repeat(30))), Some(60));
        assert_eq!(find(&format!("{}sn{}", "n".repeat(59), "c".repeat(40))), None, "a dark film");
        assert_eq!(find(""), None);
    }

    #[test]
    fn certainty_falls_with_dark_scenes_before() {
        let scene = "s".repeat(60);
        let certainty = |before: &str| find_credits(&frames(&format!("{before}{}", "c".repeat(40)))).unwrap().1;
        assert_eq!(certainty(&scene), 80);
        assert!(certainty(&format!("{}{scene}", "n".repeat(15))) < 60);
    }
}
