//! Writes bitmap subtitles: PGS in a `.sup` file as on Blu-ray discs, and VobSub, the sub-pictures of DVDs, in a `.sub`
//! file with its `.idx`.

use std::path::Path;

/// One subtitle: a box in one colour with a border in another.
#[derive(Clone, Copy, Debug)]
pub struct BitmapSubtitle {
    pub start_ms: u32,
    /// None: shown until the next one.
    pub end_ms: Option<u32>,
    /// Left, top, width and height on the canvas.
    pub area: (u16, u16, u16, u16),
}

/// Luma, Cr, Cb and opacity of the box and its border; the box is half transparent.
const COLORS: [[u8; 4]; 2] = [[235, 128, 128, 128], [180, 160, 60, 255]];

/// Width of the border, pixels.
const BORDER_PIXELS: usize = 4;

/// Writes a `.sub` file and its `.idx` with these subtitles on a canvas of this size. Boxes must be under 250 pixels wide.
pub fn write_vobsub(idx: &Path, (width, height): (u16, u16), subtitles: &[BitmapSubtitle]) {
    let palette = "000000, ffffff, c0c000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, 000000, \
                   000000, 000000, 000000, 000000";
    let mut index = format!(
        "# VobSub index file, v7 (do not modify this line!)\nsize: {width}x{height}\npalette: {palette}\nid: en, index: 0\n"
    );
    let mut out: Vec<u8> = Vec::new();
    for subtitle in subtitles {
        let ms = subtitle.start_ms;
        let timestamp = format!("{:02}:{:02}:{:02}:{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        index += &format!("timestamp: {timestamp}, filepos: {:09x}\n", out.len());
        let packet = sub_picture(subtitle);
        out.extend([0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8]);
        out.extend([0, 0, 1, 0xbd]);
        out.extend((packet.len() as u16 + 9).to_be_bytes());
        let pts = ms * 90;
        out.extend([0x81, 0x80, 5, 0x21 | (pts >> 29 & 0xe) as u8, (pts >> 22) as u8, (pts >> 14) as u8 | 1]);
        out.extend([(pts >> 7) as u8, (pts << 1) as u8 | 1, 0x20]);
        out.extend(packet);
    }
    std::fs::write(idx, index).unwrap();
    std::fs::write(idx.with_extension("sub"), out).unwrap();
}

/// A sub-picture unit: size, two interlaced fields of run-length pixels, and its display commands.
fn sub_picture(subtitle: &BitmapSubtitle) -> Vec<u8> {
    let (left, top, width, height) = subtitle.area;
    let run_digits = |count: usize, color: usize| {
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
    let encode_line = |number: usize| {
        let mut digits = match number < BORDER_PIXELS || number >= height - BORDER_PIXELS {
            true => run_digits(width, 2),
            false => {
                [run_digits(BORDER_PIXELS, 2), run_digits(width - 2 * BORDER_PIXELS, 1), run_digits(BORDER_PIXELS, 2)]
                    .concat()
            }
        };
        digits.resize(digits.len().next_multiple_of(2), 0);
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect::<Vec<_>>()
    };
    let upper: Vec<u8> = (0..height).step_by(2).flat_map(encode_line).collect();
    let lower: Vec<u8> = (1..height).step_by(2).flat_map(encode_line).collect();
    let field_offsets = [4, 4 + upper.len() as u16].map(u16::to_be_bytes).concat();
    let control_offset = 4 + upper.len() + lower.len();
    let (right, bottom) = (usize::from(left) + width - 1, usize::from(top) + height - 1);
    let pair = |from: u16, to: usize| [(from >> 4) as u8, (from << 4) as u8 | (to >> 8) as u8, to as u8];
    // Colours and opacities from the last to the first; the box is half transparent.
    let show_commands = [
        &[1, 3, 0x02, 0x10, 4, 0x0f, 0x80, 5],
        &pair(left, right)[..],
        &pair(top, bottom),
        &[6],
        &field_offsets,
        &[0xff],
    ];
    let show_commands = show_commands.concat();
    let stop_offset = (control_offset + 4 + show_commands.len()) as u16;
    let mut commands = [&[0, 0][..], &stop_offset.to_be_bytes(), &show_commands].concat();
    if let Some(end) = subtitle.end_ms {
        // In units of 1,024 ticks.
        let stop_delay = ((end - subtitle.start_ms) * 90 / 1024) as u16;
        commands.extend([&stop_delay.to_be_bytes()[..], &stop_offset.to_be_bytes(), &[2, 0xff]].concat());
    } else {
        commands[2..4].copy_from_slice(&(control_offset as u16).to_be_bytes());
    }
    let size = (control_offset + commands.len()) as u16;
    [&size.to_be_bytes()[..], &(control_offset as u16).to_be_bytes(), &upper, &lower, &commands].concat()
}

/// Writes a `.sup` file with these subtitles on a canvas of this size.
pub fn write_pgs(path: &Path, canvas: (u16, u16), subtitles: &[BitmapSubtitle]) {
    let mut out = Vec::new();
    for (number, subtitle) in subtitles.iter().enumerate() {
        push_display_set(&mut out, canvas, 2 * number as u16, subtitle);
        if let Some(end) = subtitle.end_ms {
            let mut composition = composition(canvas, 2 * number as u16 + 1, 0);
            composition.push(0);
            push_segment(&mut out, end, 0x16, &composition);
            push_segment(&mut out, end, 0x17, &window_definition(subtitle));
            push_segment(&mut out, end, 0x80, &[]);
        }
    }
    std::fs::write(path, out).unwrap();
}

fn push_display_set(out: &mut Vec<u8>, canvas: (u16, u16), number: u16, subtitle: &BitmapSubtitle) {
    let (left, top, width, height) = subtitle.area;
    let start_ms = subtitle.start_ms;
    let mut body = composition(canvas, number, 0x80);
    body.extend([1, 0, 0, 0, 0]);
    body.extend(left.to_be_bytes().into_iter().chain(top.to_be_bytes()));
    push_segment(out, start_ms, 0x16, &body);
    push_segment(out, start_ms, 0x17, &window_definition(subtitle));
    let entries = COLORS.iter().zip(1u8..).flat_map(|(color, id)| [id, color[0], color[1], color[2], color[3]]);
    push_segment(out, start_ms, 0x14, &[0, 0].into_iter().chain(entries).collect::<Vec<_>>());
    let lines = encoded_lines(usize::from(width), usize::from(height));
    let length = (lines.len() as u32 + 4).to_be_bytes();
    let mut object = vec![0, 0, 0, 0xc0, length[1], length[2], length[3]];
    object.extend(width.to_be_bytes().into_iter().chain(height.to_be_bytes()).chain(lines));
    push_segment(out, start_ms, 0x15, &object);
    push_segment(out, start_ms, 0x80, &[]);
}

/// Presentation composition: size, frame rate, number, state (0x80: epoch start) and palette 0.
fn composition((width, height): (u16, u16), number: u16, state: u8) -> Vec<u8> {
    let numbers = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [&numbers[..], &[0x10], &number.to_be_bytes(), &[state, 0, 0]].concat()
}

fn window_definition(subtitle: &BitmapSubtitle) -> Vec<u8> {
    let (left, top, width, height) = subtitle.area;
    [1, 0].into_iter().chain([left, top, width, height].into_iter().flat_map(u16::to_be_bytes)).collect()
}

/// Run-length encoded lines; two zeros end each line.
fn encoded_lines(width: usize, height: usize) -> Vec<u8> {
    let encode_run = |count: usize, color: u8| match count {
        1..=63 => vec![0, 0x80 | count as u8, color],
        _ => vec![0, 0xc0 | (count >> 8) as u8, count as u8, color],
    };
    let border_line = [encode_run(width, 2), vec![0, 0]].concat();
    let inner_line = [
        encode_run(BORDER_PIXELS, 2),
        encode_run(width - 2 * BORDER_PIXELS, 1),
        encode_run(BORDER_PIXELS, 2),
        vec![0, 0],
    ]
    .concat();
    let choose_line =
        |number| if number < BORDER_PIXELS || number >= height - BORDER_PIXELS { &border_line } else { &inner_line };
    (0..height).flat_map(|number| choose_line(number).clone()).collect()
}

fn push_segment(out: &mut Vec<u8>, ms: u32, kind: u8, body: &[u8]) {
    out.extend(b"PG");
    out.extend((ms * 90).to_be_bytes());
    out.extend([0; 4]);
    out.push(kind);
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
}
