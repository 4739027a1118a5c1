//! Scales rectangles of a canvas to the size of the video.

use std::ops::Range;

use super::{MAX_PIXELS, PlacedBitmap};

/// Scales the rectangles of a canvas to a video of this size. The canvas covers the video whatever its aspect ratio;
/// parts outside the video are cut off.
pub fn scale_to_video(bitmaps: &[PlacedBitmap], canvas: (u32, u32), width: u32, height: u32) -> Vec<PlacedBitmap> {
    bitmaps.iter().filter_map(|piece| scale_bitmap(piece, canvas, width, height)).collect()
}

fn scale_bitmap(bitmap: &PlacedBitmap, canvas: (u32, u32), width: u32, height: u32) -> Option<PlacedBitmap> {
    let horizontal = AxisScaling::new(bitmap.x, bitmap.width, canvas.0, width)?;
    let vertical = AxisScaling::new(bitmap.y, bitmap.height, canvas.1, height)?;
    let (columns, rows) = (horizontal.output.len(), vertical.output.len());
    if columns * rows > MAX_PIXELS || columns * bitmap.height as usize > MAX_PIXELS {
        return None;
    }
    // Premultiplied alpha: transparent pixels must not tint the edges.
    let premultiplied = |pixel: &[u8]| {
        let [red, green, blue, opacity] = [pixel[0], pixel[1], pixel[2], pixel[3]].map(f32::from);
        [red * opacity, green * opacity, blue * opacity, opacity]
    };
    let source: Vec<[f32; 4]> = bitmap.pixels.chunks_exact(4).map(premultiplied).collect();
    let resized_rows: Vec<[f32; 4]> =
        source.chunks_exact(bitmap.width as usize).flat_map(|row| horizontal.resample(|at| row[at])).collect();
    let mut pixels = vec![0; columns * rows * 4];
    for column in 0..columns {
        for (row, pixel) in vertical.resample(|at| resized_rows[at * columns + column]).enumerate() {
            let target = &mut pixels[(row * columns + column) * 4..][..4];
            let opacity = pixel[3];
            if opacity >= 0.5 {
                for (target, color) in target.iter_mut().zip(pixel) {
                    *target = (color / opacity).round().clamp(0.0, 255.0) as u8;
                }
                target[3] = opacity.round().clamp(0.0, 255.0) as u8;
            }
        }
    }
    let (x, y) = (horizontal.output.start as u32, vertical.output.start as u32);
    Some(PlacedBitmap { x, y, width: columns as u32, height: rows as u32, pixels })
}

struct AxisScaling {
    output: Range<usize>,
    /// For each output pixel: index of the first source pixel, and the weights starting there.
    weights: Vec<(usize, Vec<f32>)>,
}

impl AxisScaling {
    /// A triangle filter over each pixel. When downscaling, it is as wide as the step between two output pixels.
    fn new(start: u32, length: u32, canvas_len: u32, output_len: u32) -> Option<Self> {
        if length == 0 || canvas_len == 0 || output_len == 0 {
            return None;
        }
        let source_step = f64::from(canvas_len) / f64::from(output_len);
        let filter_radius = source_step.max(1.0);
        let (first, last) = (f64::from(start), f64::from(start) + f64::from(length));
        let from = ((first - filter_radius) / source_step - 0.5).ceil().max(0.0);
        let to = ((last + filter_radius) / source_step - 0.5).floor().min(f64::from(output_len) - 1.0);
        if from > to {
            return None;
        }
        let output = from as usize..to as usize + 1;
        let weights = output.clone().map(|at| {
            let center = (at as f64 + 0.5) * source_step - first;
            let weight = |pixel: f64| (1.0 - (pixel + 0.5 - center).abs() / filter_radius).max(0.0);
            let all = (center - filter_radius - 0.5).ceil() as i64..=(center + filter_radius - 0.5).floor() as i64;
            let sum: f64 = all.clone().map(|pixel| weight(pixel as f64)).sum();
            let clamped = (*all.start()).clamp(0, i64::from(length))..(*all.end() + 1).clamp(0, i64::from(length));
            let weights = clamped.clone().map(|pixel| (weight(pixel as f64) / sum.max(f64::EPSILON)) as f32);
            (clamped.start as usize, weights.collect())
        });
        let weights = weights.collect();
        Some(Self { output, weights })
    }

    fn resample(&self, source: impl Fn(usize) -> [f32; 4]) -> impl Iterator<Item = [f32; 4]> {
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

    fn solid(x: u32, y: u32, width: u32, height: u32) -> PlacedBitmap {
        let pixels = [200, 100, 50, 255].repeat((width * height) as usize);
        PlacedBitmap { x, y, width, height, pixels }
    }

    #[test]
    fn unscaled_bitmaps_are_unchanged() {
        let scaled = scale_to_video(&[solid(10, 20, 3, 2)], (64, 48), 64, 48);
        let bitmap = &scaled[0];
        let visible: Vec<&[u8]> = bitmap.pixels.chunks_exact(4).filter(|pixel| pixel[3] > 0).collect();
        assert_eq!(visible, [[200, 100, 50, 255]; 6]);
        let at = bitmap.pixels.chunks_exact(4).position(|pixel| pixel[3] > 0).unwrap() as u32;
        assert_eq!((bitmap.x + at % bitmap.width, bitmap.y + at / bitmap.width), (10, 20));
    }

    proptest! {
        /// Scaling keeps the position and the amount of light for any canvas size.
        #[test]
        fn position_and_light_are_kept(
            x in 2u32..30, y in 2u32..30, width in 4u32..20, height in 4u32..20, wide in 20u32..200, high in 20u32..200,
        ) {
            let scaled = scale_to_video(&[solid(x, y, width, height)], (64, 64), wide, high);
            let bitmap = &scaled[0];
            let (mut sum, mut across, mut down) = (0.0, 0.0, 0.0);
            for (at, pixel) in bitmap.pixels.chunks_exact(4).enumerate() {
                let (column, row) = (at as u32 % bitmap.width, at as u32 / bitmap.width);
                let weight = f64::from(pixel[3]) / 255.0;
                if pixel[3] > 8 {
                    prop_assert!(pixel[0].abs_diff(200) < 2 && pixel[2].abs_diff(50) < 2);
                }
                sum += weight;
                across += weight * (f64::from(bitmap.x + column) + 0.5);
                down += weight * (f64::from(bitmap.y + row) + 0.5);
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
        fn bitmaps_stay_within_the_video(
            x in 0u32..70_000, y in 0u32..100, width in 1u32..60, height in 1u32..60, canvas in 1u32..100, wide in 1u32..100,
        ) {
            for bitmap in scale_to_video(&[solid(x, y, width, height)], (canvas, canvas), wide, 50) {
                prop_assert!(bitmap.x + bitmap.width <= wide && bitmap.y + bitmap.height <= 50);
                prop_assert_eq!(bitmap.pixels.len(), (bitmap.width * bitmap.height * 4) as usize);
            }
        }
    }
}
