//! Scales rectangles of a canvas to the size of the video.

use std::ops::Range;

use super::{MOST_PIXELS, Piece};

/// Scales the rectangles of a canvas to a video of this size. The canvas covers the video whatever its aspect ratio;
/// parts outside the video are cut off.
pub fn fitted(pieces: &[Piece], canvas: (u32, u32), width: u32, height: u32) -> Vec<Piece> {
    pieces.iter().filter_map(|piece| fit(piece, canvas, width, height)).collect()
}

fn fit(piece: &Piece, canvas: (u32, u32), width: u32, height: u32) -> Option<Piece> {
    let across = Line::new(piece.x, piece.width, canvas.0, width)?;
    let down = Line::new(piece.y, piece.height, canvas.1, height)?;
    let (columns, rows) = (across.outer.len(), down.outer.len());
    if columns * rows > MOST_PIXELS || columns * piece.height as usize > MOST_PIXELS {
        return None;
    }
    // Premultiplied alpha: transparent pixels must not tint the edges.
    let weighed = |pixel: &[u8]| {
        let [red, green, blue, opacity] = [pixel[0], pixel[1], pixel[2], pixel[3]].map(f32::from);
        [red * opacity, green * opacity, blue * opacity, opacity]
    };
    let source: Vec<[f32; 4]> = piece.pixels.chunks_exact(4).map(weighed).collect();
    let narrow: Vec<[f32; 4]> =
        source.chunks_exact(piece.width as usize).flat_map(|row| across.blend(|at| row[at])).collect();
    let mut pixels = vec![0; columns * rows * 4];
    for column in 0..columns {
        for (row, pixel) in down.blend(|at| narrow[at * columns + column]).enumerate() {
            let into = &mut pixels[(row * columns + column) * 4..][..4];
            let opacity = pixel[3];
            if opacity >= 0.5 {
                for (into, color) in into.iter_mut().zip(pixel) {
                    *into = (color / opacity).round().clamp(0.0, 255.0) as u8;
                }
                into[3] = opacity.round().clamp(0.0, 255.0) as u8;
            }
        }
    }
    let (x, y) = (across.outer.start as u32, down.outer.start as u32);
    Some(Piece { x, y, width: columns as u32, height: rows as u32, pixels })
}

/// Scaling along one axis.
struct Line {
    outer: Range<usize>,
    /// For each output pixel: index of the first source pixel, and the weights starting there.
    weights: Vec<(usize, Vec<f32>)>,
}

impl Line {
    /// A triangle filter over each pixel. When downscaling, it is as wide as the step between two output pixels.
    fn new(start: u32, length: u32, canvas: u32, whole: u32) -> Option<Self> {
        if length == 0 || canvas == 0 || whole == 0 {
            return None;
        }
        let step = f64::from(canvas) / f64::from(whole);
        let reach = step.max(1.0);
        let (first, last) = (f64::from(start), f64::from(start) + f64::from(length));
        let from = ((first - reach) / step - 0.5).ceil().max(0.0);
        let to = ((last + reach) / step - 0.5).floor().min(f64::from(whole) - 1.0);
        if from > to {
            return None;
        }
        let outer = from as usize..to as usize + 1;
        let weights = outer.clone().map(|at| {
            let middle = (at as f64 + 0.5) * step - first;
            let weight = |pixel: f64| (1.0 - (pixel + 0.5 - middle).abs() / reach).max(0.0);
            let all = (middle - reach - 0.5).ceil() as i64..=(middle + reach - 0.5).floor() as i64;
            let sum: f64 = all.clone().map(|pixel| weight(pixel as f64)).sum();
            let inside = (*all.start()).clamp(0, i64::from(length))..(*all.end() + 1).clamp(0, i64::from(length));
            let weights = inside.clone().map(|pixel| (weight(pixel as f64) / sum.max(f64::EPSILON)) as f32);
            (inside.start as usize, weights.collect())
        });
        let weights = weights.collect();
        Some(Self { outer, weights })
    }

    fn blend(&self, source: impl Fn(usize) -> [f32; 4]) -> impl Iterator<Item = [f32; 4]> {
        self.weights.iter().map(move |(first, weights)| {
            let mut sum = [0.0; 4];
            for (at, weight) in (*first..).zip(weights) {
                for (sum, value) in sum.iter_mut().zip(source(at)) {
                    *sum += value * weight;
                }
            }
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn solid(x: u32, y: u32, width: u32, height: u32) -> Piece {
        let pixels = [200, 100, 50, 255].repeat((width * height) as usize);
        Piece { x, y, width, height, pixels }
    }

    #[test]
    fn what_has_the_right_size_stays_as_it_is() {
        let fitted = fitted(&[solid(10, 20, 3, 2)], (64, 48), 64, 48);
        let piece = &fitted[0];
        let inside: Vec<&[u8]> = piece.pixels.chunks_exact(4).filter(|pixel| pixel[3] > 0).collect();
        assert_eq!(inside, [[200, 100, 50, 255]; 6]);
        let at = piece.pixels.chunks_exact(4).position(|pixel| pixel[3] > 0).unwrap() as u32;
        assert_eq!((piece.x + at % piece.width, piece.y + at / piece.width), (10, 20));
    }

    proptest! {
        /// Scaling keeps the position and the amount of light for any canvas size.
        #[test]
        fn place_and_weight_are_kept(
            x in 2u32..30, y in 2u32..30, width in 4u32..20, height in 4u32..20, wide in 20u32..200, high in 20u32..200,
        ) {
            let fitted = fitted(&[solid(x, y, width, height)], (64, 64), wide, high);
            let piece = &fitted[0];
            let (mut sum, mut across, mut down) = (0.0, 0.0, 0.0);
            for (at, pixel) in piece.pixels.chunks_exact(4).enumerate() {
                let (column, row) = (at as u32 % piece.width, at as u32 / piece.width);
                let weight = f64::from(pixel[3]) / 255.0;
                if pixel[3] > 8 {
                    prop_assert!(pixel[0].abs_diff(200) < 2 && pixel[2].abs_diff(50) < 2);
                }
                sum += weight;
                across += weight * (f64::from(piece.x + column) + 0.5);
                down += weight * (f64::from(piece.y + row) + 0.5);
            }
            let (scale_x, scale_y) = (f64::from(wide) / 64.0, f64::from(high) / 64.0);
            let area = f64::from(width) * scale_x * f64::from(height) * scale_y;
            prop_assert!((sum / area - 1.0).abs() < 0.15, "{} of {}", sum, area);
            let middle_x = (f64::from(x) + f64::from(width) / 2.0) * scale_x;
            let middle_y = (f64::from(y) + f64::from(height) / 2.0) * scale_y;
            prop_assert!((across / sum - middle_x).abs() < 0.3, "{} instead of {}", across / sum, middle_x);
            prop_assert!((down / sum - middle_y).abs() < 0.3, "{} instead of {}", down / sum, middle_y);
        }

        #[test]
        fn nothing_lies_outside_the_picture(
            x in 0u32..70_000, y in 0u32..100, width in 1u32..60, height in 1u32..60, canvas in 1u32..100, wide in 1u32..100,
        ) {
            for piece in fitted(&[solid(x, y, width, height)], (canvas, canvas), wide, 50) {
                prop_assert!(piece.x + piece.width <= wide && piece.y + piece.height <= 50);
                prop_assert_eq!(piece.pixels.len(), (piece.width * piece.height * 4) as usize);
            }
        }
    }
}
