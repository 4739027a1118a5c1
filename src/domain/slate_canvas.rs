//! The picture of a slate: a built-in drawing of a dark room with a fire, or an image with black bars.

/// Pixels of a slate, RGBA without padding. Every pixel is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlateCanvas {
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

/// A rectangle of the built-in drawing: position and size in thousandths of the width and height, and its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColoredBox {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
    /// `0xRRGGBB`.
    pub color: u32,
}

/// The wall of the built-in drawing, `0xRRGGBB`.
pub const WALL_COLOR: u32 = 0x17_120f;

/// The fireplace on it, in drawing order: chimney breast, opening, flame, its core, and logs. Boxes, so that no file has to be
/// read and ffmpeg draws the same.
pub const FIREPLACE: [ColoredBox; 5] = [
    ColoredBox { x: 360, y: 300, width: 280, height: 440, color: 0x3a_2a20 },
    ColoredBox { x: 390, y: 360, width: 220, height: 380, color: 0x0c_0908 },
    ColoredBox { x: 455, y: 520, width: 90, height: 190, color: 0xb4_471a },
    ColoredBox { x: 475, y: 580, width: 50, height: 130, color: 0xf2_a63b },
    ColoredBox { x: 420, y: 700, width: 160, height: 25, color: 0x5a_3c28 },
];

impl SlateCanvas {
    /// The built-in drawing.
    pub fn fireplace(width: u32, height: u32) -> Self {
        let mut canvas = Self::filled(width, height, WALL_COLOR);
        for part in FIREPLACE {
            let scaled = |length: u32, thousandths: u32| (u64::from(length) * u64::from(thousandths) / 1000) as u32;
            let (x, y) = (scaled(width, part.x), scaled(height, part.y));
            let box_size = (scaled(width, part.width), scaled(height, part.height));
            let row = opaque(part.color).repeat(box_size.0 as usize);
            (0..box_size.1).for_each(|line| canvas.write_row(x, y + line, &row));
        }
        canvas
    }

    /// An image of [`fit_size`] in the middle of black bars. Where it is transparent, it is black. `image`: RGBA without
    /// padding.
    pub fn with_image(width: u32, height: u32, (image_width, image_height): (u32, u32), image: &[u8]) -> Self {
        let mut canvas = Self::filled(width, height, 0);
        let start = |length: u32, image_length: u32| (length.saturating_sub(image_length) / 2) & !1;
        let (x, y) = (start(width, image_width), start(height, image_height));
        let rows = image.chunks_exact((image_width as usize * 4).max(1)).take(image_height as usize);
        for (line, row) in (y..).zip(rows) {
            let blend = |[red, green, blue, opacity]: &[u8; 4]| {
                let dimmed = |value: u8| ((u32::from(value) * u32::from(*opacity) + 127) / 255) as u8;
                [dimmed(*red), dimmed(*green), dimmed(*blue), 255]
            };
            let blended: Vec<u8> = row.as_chunks::<4>().0.iter().flat_map(blend).collect();
            canvas.write_row(x, line, &blended);
        }
        canvas
    }

    fn filled(width: u32, height: u32, color: u32) -> Self {
        Self { width, height, pixels: opaque(color).repeat(width as usize * height as usize) }
    }

    /// Overwrites pixels of one row; what lies outside the canvas is dropped.
    fn write_row(&mut self, x: u32, y: u32, row: &[u8]) {
        let row_bytes = self.width as usize * 4;
        let line = self.pixels.chunks_exact_mut(row_bytes.max(1)).nth(y as usize);
        if let Some(target) = line.and_then(|line| line.get_mut(x as usize * 4..)) {
            let count = row.len().min(target.len());
            target[..count].copy_from_slice(&row[..count]);
        }
    }
}

fn opaque(color: u32) -> [u8; 4] {
    let [_, red, green, blue] = color.to_be_bytes();
    [red, green, blue, 255]
}

/// The largest size of an image within a box, its shape kept, as ffmpeg's `force_original_aspect_ratio=decrease` rounds it.
pub fn fit_size((width, height): (u32, u32), (box_width, box_height): (u32, u32)) -> (u32, u32) {
    let scaled = |length: u32, by: u32, of: u32| {
        let of = u64::from(of.max(1));
        u32::try_from((u64::from(length) * u64::from(by) + of / 2) / of).unwrap_or(u32::MAX).max(1)
    };
    (scaled(box_height, width, height).min(box_width), scaled(box_width, height, width).min(box_height))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pixel(canvas: &SlateCanvas, x: u32, y: u32) -> [u8; 4] {
        canvas.pixels.as_chunks::<4>().0[(y * canvas.width + x) as usize]
    }

    #[test]
    fn the_drawing_has_a_fire_in_a_dark_room() {
        let canvas = SlateCanvas::fireplace(1000, 1000);
        assert_eq!(pixel(&canvas, 0, 0), [0x17, 0x12, 0x0f, 255]);
        assert_eq!(pixel(&canvas, 360, 300), [0x3a, 0x2a, 0x20, 255]);
        assert_eq!(pixel(&canvas, 359, 300), [0x17, 0x12, 0x0f, 255]);
        assert_eq!(pixel(&canvas, 609, 400), [0x0c, 0x09, 0x08, 255]);
        assert_eq!(pixel(&canvas, 500, 600), [0xf2, 0xa6, 0x3b, 255]);
        assert_eq!(pixel(&canvas, 500, 710), [0x5a, 0x3c, 0x28, 255], "the logs lie before the flame");
    }

    #[test]
    fn an_image_is_centred_between_black_bars() {
        assert_eq!(fit_size((320, 320), (640, 360)), (360, 360));
        assert_eq!(fit_size((640, 360), (1280, 720)), (1280, 720));
        assert_eq!(fit_size((4096, 1), (640, 360)), (640, 1));
        let image = [[200, 100, 0, 255], [200, 100, 0, 0], [200, 100, 0, 51], [1, 2, 3, 255]].concat();
        let canvas = SlateCanvas::with_image(8, 2, (2, 2), &image);
        assert_eq!(pixel(&canvas, 1, 0), [0, 0, 0, 255]);
        assert_eq!(pixel(&canvas, 2, 0), [200, 100, 0, 255]);
        assert_eq!(pixel(&canvas, 3, 0), [0, 0, 0, 255], "transparent");
        assert_eq!(pixel(&canvas, 2, 1), [40, 20, 0, 255], "a fifth opaque");
        assert_eq!((pixel(&canvas, 3, 1), pixel(&canvas, 4, 1)), ([1, 2, 3, 255], [0, 0, 0, 255]));
    }

    proptest! {
        #[test]
        fn an_image_fits_its_box(image in (1u32..4097, 1u32..4097), within in (2u32..4097, 2u32..4097)) {
            let (width, height) = fit_size(image, within);
            prop_assert!((1..=within.0).contains(&width) && (1..=within.1).contains(&height));
            prop_assert!(width == within.0 || height == within.1);
        }

        #[test]
        fn every_canvas_is_complete(width in 0u32..70, height in 0u32..70, image in (0u32..90, 0u32..90)) {
            let pixels = vec![7; (image.0 * image.1 * 4) as usize];
            for canvas in [SlateCanvas::fireplace(width, height), SlateCanvas::with_image(width, height, image, &pixels)] {
                prop_assert_eq!(canvas.pixels.len(), (width * height * 4) as usize);
            }
        }
    }
}
