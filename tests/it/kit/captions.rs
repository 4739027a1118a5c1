//! Writes bitmap subtitles: PGS in a `.sup` file as on Blu-ray discs, and VobSub, the sub-pictures of DVDs, in a `.sub`
//! file with its `.idx`.

use std::path::Path;

/// One subtitle: a box in one colour with a border in another.
#[derive(Clone, Copy, Debug)]
pub struct Caption {
    pub start_ms: u32,
    /// None: shown until the next one.
    pub end_ms: Option<u32>,
    /// Left, top, width and height on the canvas.
    pub place: (u16, u16, u16, u16),
}

/// Luma, Cr, Cb and opacity of the box and its border; the box is half transparent.
const COLORS: [[u8; 4]; 2] = [[235, 128, 128, 128], [180, 160, 60, 255]];

/// Width of the border, pixels.
const BORDER: usize = 4;

/// Writes a `.sub` file and its `.idx` with these subtitles on a canvas of this size. Boxes must be under 250 pixels wide.
pub fn write_vobsub(idx: &Path, (width, height): (u16, u16), captions: &[Caption]) {
    let palette = "000000, ffffff, c0c000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, \
                   000000, 000000, 000000, 000000";
    let mut index = format!(
        "# VobSub index file, v7 (do not modify this line!)\nsize: {width}x{height}\npalette: {palette}\nid: en, index: 0\n"
    );
    let mut out: Vec<u8> = Vec::new();
    for caption in captions {
        let ms = caption.start_ms;
        let when = format!("{:02}:{:02}:{:02}:{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        index += &format!("timestamp: {when}, filepos: {:09x}\n", out.len());
        let body = spu(caption);
        out.extend([0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8]);
        out.extend([0, 0, 1, 0xbd]);
        out.extend((body.len() as u16 + 9).to_be_bytes());
        let pts = ms * 90;
        out.extend([0x81, 0x80, 5, 0x21 | (pts >> 29 & 0xe) as u8, (pts >> 22) as u8, (pts >> 14) as u8 | 1]);
        out.extend([(pts >> 7) as u8, (pts << 1) as u8 | 1, 0x20]);
        out.extend(body);
    }
    std::fs::write(idx, index).unwrap();
    std::fs::write(idx.with_extension("sub"), out).unwrap();
}

/// A sub-picture unit: size, two interlaced fields of run-length pixels, and its display commands.
fn spu(caption: &Caption) -> Vec<u8> {
    let (left, top, width, height) = caption.place;
    let run = |count: usize, color: usize| {
        let value = count << 2 | color;
        let digits = if value < 16 {
            1
        } else if value < 64 {
            2
        } else if value < 256 {
            3
        } else {
            4
        };
        (0..digits).rev().map(|digit| value >> (4 * digit) & 15).collect::<Vec<_>>()
    };
    let (width, height) = (usize::from(width), usize::from(height));
    let line = |number: usize| {
        let mut digits = match number < BORDER || number >= height - BORDER {
            true => run(width, 2),
            false => [run(BORDER, 2), run(width - 2 * BORDER, 1), run(BORDER, 2)].concat(),
        };
        digits.resize(digits.len().next_multiple_of(2), 0);
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect::<Vec<_>>()
    };
    let upper: Vec<u8> = (0..height).step_by(2).flat_map(line).collect();
    let lower: Vec<u8> = (1..height).step_by(2).flat_map(line).collect();
    let fields = [4, 4 + upper.len() as u16].map(u16::to_be_bytes).concat();
    let control = 4 + upper.len() + lower.len();
    let (right, bottom) = (usize::from(left) + width - 1, usize::from(top) + height - 1);
    let pair = |from: u16, to: usize| [(from >> 4) as u8, (from << 4) as u8 | (to >> 8) as u8, to as u8];
    // Colours and opacities from the last to the first; the box is half transparent.
    let shown =
        [&[1, 3, 0x02, 0x10, 4, 0x0f, 0x80, 5], &pair(left, right)[..], &pair(top, bottom), &[6], &fields, &[0xff]];
    let shown = shown.concat();
    let last = (control + 4 + shown.len()) as u16;
    let mut commands = [&[0, 0][..], &last.to_be_bytes(), &shown].concat();
    if let Some(end) = caption.end_ms {
        // In units of 1,024 ticks.
        let after = ((end - caption.start_ms) * 90 / 1024) as u16;
        commands.extend([&after.to_be_bytes()[..], &last.to_be_bytes(), &[2, 0xff]].concat());
    } else {
        commands[2..4].copy_from_slice(&(control as u16).to_be_bytes());
    }
    let size = (control + commands.len()) as u16;
    [&size.to_be_bytes()[..], &(control as u16).to_be_bytes(), &upper, &lower, &commands].concat()
}

/// Writes a `.sup` file with these subtitles on a canvas of this size.
pub fn write_graphics(path: &Path, canvas: (u16, u16), captions: &[Caption]) {
    let mut out = Vec::new();
    for (number, caption) in captions.iter().enumerate() {
        shown(&mut out, canvas, 2 * number as u16, caption);
        if let Some(end) = caption.end_ms {
            let mut composition = composition(canvas, 2 * number as u16 + 1, 0);
            composition.push(0);
            segment(&mut out, end, 0x16, &composition);
            segment(&mut out, end, 0x17, &window(caption));
            segment(&mut out, end, 0x80, &[]);
        }
    }
    std::fs::write(path, out).unwrap();
}

fn shown(out: &mut Vec<u8>, canvas: (u16, u16), number: u16, caption: &Caption) {
    let (left, top, width, height) = caption.place;
    let at = caption.start_ms;
    let mut body = composition(canvas, number, 0x80);
    body.extend([1, 0, 0, 0, 0]);
    body.extend(left.to_be_bytes().into_iter().chain(top.to_be_bytes()));
    segment(out, at, 0x16, &body);
    segment(out, at, 0x17, &window(caption));
    let entries = COLORS.iter().zip(1u8..).flat_map(|(color, id)| [id, color[0], color[1], color[2], color[3]]);
    segment(out, at, 0x14, &[0, 0].into_iter().chain(entries).collect::<Vec<_>>());
    let lines = lines(usize::from(width), usize::from(height));
    let length = (lines.len() as u32 + 4).to_be_bytes();
    let mut object = vec![0, 0, 0, 0xc0, length[1], length[2], length[3]];
    object.extend(width.to_be_bytes().into_iter().chain(height.to_be_bytes()).chain(lines));
    segment(out, at, 0x15, &object);
    segment(out, at, 0x80, &[]);
}

/// Presentation composition: size, frame rate, number, state (0x80: epoch start) and palette 0.
fn composition((width, height): (u16, u16), number: u16, state: u8) -> Vec<u8> {
    let numbers = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [&numbers[..], &[0x10], &number.to_be_bytes(), &[state, 0, 0]].concat()
}

fn window(caption: &Caption) -> Vec<u8> {
    let (left, top, width, height) = caption.place;
    [1, 0].into_iter().chain([left, top, width, height].into_iter().flat_map(u16::to_be_bytes)).collect()
}

/// Run-length encoded lines; two zeros end each line.
fn lines(width: usize, height: usize) -> Vec<u8> {
    let run = |count: usize, color: u8| match count {
        1..=63 => vec![0, 0x80 | count as u8, color],
        _ => vec![0, 0xc0 | (count >> 8) as u8, count as u8, color],
    };
    let edge = [run(width, 2), vec![0, 0]].concat();
    let inner = [run(BORDER, 2), run(width - 2 * BORDER, 1), run(BORDER, 2), vec![0, 0]].concat();
    let line = |line| if line < BORDER || line >= height - BORDER { &edge } else { &inner };
    (0..height).flat_map(|number| line(number).clone()).collect()
}

fn segment(out: &mut Vec<u8>, ms: u32, kind: u8, body: &[u8]) {
    out.extend(b"PG");
    out.extend((ms * 90).to_be_bytes());
    out.extend([0; 4]);
    out.push(kind);
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
}
