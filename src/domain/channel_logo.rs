//! The generated logo of a channel: a television set in a colour derived from the channel's id, as SVG and as PNG.

/// The drawing's own square, to which all lengths refer.
const SIDE: f64 = 256.0;

/// Half of the width of its lines.
const HALF_LINE: f64 = 7.0;

const WHITE: [f64; 3] = [1.0; 3];

/// The sizes of the PNG, pixels.
pub const PNG_SIZES: [u32; 2] = [128, 512];

/// Number of hues, one for each degree.
pub const HUES: u32 = 360;

/// The hue of a channel, degrees. The golden angle gives consecutive ids very different hues.
pub fn hue_of(channel: u32) -> u32 {
    (f64::from(channel) * 137.507_764).rem_euclid(360.0).round() as u32 % HUES
}

/// The logo of a hue as SVG.
pub fn to_svg(hue: u32) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 256 256\" width=\"256\" height=\"256\">\
         <rect width=\"256\" height=\"256\" rx=\"40\" fill=\"hsl({hue},55%,34%)\"/>\
         <rect x=\"48\" y=\"64\" width=\"160\" height=\"108\" rx=\"14\" fill=\"none\" stroke=\"#fff\" stroke-width=\"14\"/>\
         <path d=\"M112 96v44l38-22z\" fill=\"#fff\"/><path d=\"M88 204h80\" stroke=\"#fff\" stroke-width=\"14\" \
         stroke-linecap=\"round\"/></svg>"
    )
}

/// The same drawing as PNG, square with transparent corners. `size` is its side in pixels.
pub fn to_png(hue: u32, size: u32) -> Vec<u8> {
    let (color, scale) = (rgb_of_hue(hue.into()), SIDE / f64::from(size));
    let mut pixels = Vec::with_capacity((size * size * 4) as usize);
    for y in 0..size {
        for x in 0..size {
            let (x, y) = ((f64::from(x) + 0.5) * scale, (f64::from(y) + 0.5) * scale);
            // The part of a pixel that a shape covers, by the distance of its centre to the edge.
            let coverage = |distance: f64| (0.5 - distance / scale).clamp(0.0, 1.0);
            let white = coverage(line_distance(x, y));
            let mix = |at: usize| color[at] + (WHITE[at] - color[at]) * white;
            let opacity = coverage(box_distance(x - 128.0, y - 128.0, (128.0, 128.0), 40.0));
            pixels.extend([mix(0), mix(1), mix(2), opacity].map(|value| (value * 255.0).round() as u8));
        }
    }
    encode_png(size, &pixels)
}

/// Distance to the white shapes; negative within them.
fn line_distance(x: f64, y: f64) -> f64 {
    let screen = box_distance(x - 128.0, y - 118.0, (80.0, 54.0), 14.0).abs() - HALF_LINE;
    // The triangle (112, 96), (112, 140), (150, 118) by the lines of its sides.
    let slope = (y - 118.0).abs() * 38.0 + (x - 150.0) * 22.0;
    let triangle = (112.0 - x).max(slope / 38.0_f64.hypot(22.0));
    let foot = (x - x.clamp(88.0, 168.0)).hypot(y - 204.0) - HALF_LINE;
    screen.min(triangle).min(foot)
}

/// Distance to a box with round corners around 0.
fn box_distance(x: f64, y: f64, (half_width, half_height): (f64, f64), radius: f64) -> f64 {
    let (x, y) = (x.abs() - half_width + radius, y.abs() - half_height + radius);
    x.max(0.0).hypot(y.max(0.0)) + x.max(y).min(0.0) - radius
}

/// `hsl(hue, 55%, 34%)` as red, green and blue (CSS Color 4, section 7.1).
fn rgb_of_hue(hue: f64) -> [f64; 3] {
    let (saturation, lightness) = (0.55, 0.34);
    [0.0, 8.0, 4.0].map(|offset| {
        let step = (offset + hue / 30.0).rem_euclid(12.0);
        lightness - saturation * lightness * (step - 3.0).min(9.0 - step).clamp(-1.0, 1.0)
    })
}

/// A PNG of RGBA pixels.
fn encode_png(size: u32, pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size, size);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("memory takes all bytes");
    writer.write_image_data(pixels).expect("the pixels of the size");
    writer.finish().expect("memory takes all bytes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(png: &[u8]) -> Vec<[u8; 4]> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut bytes).unwrap();
        bytes.chunks(4).map(|pixel| pixel.try_into().unwrap()).collect()
    }

    #[test]
    fn the_png_shows_the_drawing() {
        for size in PNG_SIZES {
            let png = to_png(0, size);
            let (_, width, height) = crate::domain::image::detect(&png).unwrap();
            assert_eq!((width, height), (size, size));
            let pixels = pixels(&png);
            let at = |x: u32, y: u32| pixels[(y * size / 256 * size + x * size / 256) as usize];
            // Hue 0 at 55 % and 34 %: rgb(134, 39, 39).
            assert_eq!(at(128, 20), [134, 39, 39, 255], "the ground");
            assert_eq!(at(0, 0)[3], 0, "a corner");
            for (x, y, name) in [(48, 118, "the screen's frame"), (120, 118, "the triangle"), (100, 204, "the foot")] {
                assert_eq!(at(x, y), [255; 4], "{name}");
            }
            assert_eq!(at(180, 118), [134, 39, 39, 255], "the screen");
        }
        assert_ne!(to_png(1, 128), to_png(2, 128));
    }
}
