//! Logos in SVG as images of pixels, because televisions draw no SVG.
//!
//! ffmpeg draws them with librsvg in its sandbox, from a file in memory. Such a document has no address, so librsvg follows no
//! reference to a file or a server; the sandbox has neither. librsvg bounds depth, elements and the expansion of references and
//! entities, [`ChildLimits::DRAWING`] processor time and memory.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::{MAX_IMAGE_BYTES, limited_output_of};
use crate::domain::image::may_be_svg;
use crate::engine::ffmpeg::argument_list::ArgumentList;
use crate::engine::ffmpeg::to_memory_file;
use crate::engine::process::ChildLimits;
use crate::engine::{Result, RunError};

/// Longest SVG, bytes.
const MAX_SVG_BYTES: usize = 1 << 20;

/// Whether bytes are an SVG of a length that is drawn.
pub(super) fn is_usable(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_SVG_BYTES && may_be_svg(bytes)
}

/// Draws an SVG as large as a square of `side` pixels permits; None if it is broken, or this ffmpeg has no librsvg.
///
/// # Errors
/// `Stalled`; `Internal` when ffmpeg does not start, or is killed because the drawing takes too long.
pub(super) async fn draw(ffmpeg: &Path, svg: &[u8], side: u32, encoder: &str) -> Result<Option<Vec<u8>>> {
    let file = to_memory_file("svg", svg).map_err(|cause| RunError::Internal(cause.to_string()))?;
    let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error -protocol_whitelist file -threads 1");
    // Without a probe it is drawn once, not twice. ffmpeg counts the pixels of lines that are aligned to 64.
    args.add("-probesize 32 -analyzeduration 0").pair("-max_pixels", (side + 64) * side);
    args.add("-keep_ar 1").pair("-width", side).pair("-height", side);
    args.add("-c:v librsvg -f svg_pipe").pair("-i", format!("file:/proc/self/fd/{}", file.as_raw_fd()));
    // librsvg multiplies colours by their opacity; images are stored without that.
    args.add("-map 0:v:0 -frames:v 1 -map_metadata -1 -threads 1 -vf format=gbrap,unpremultiply=inplace=1,format=rgba");
    args.add(encoder).add("-f image2pipe pipe:1");
    limited_output_of(ffmpeg, args, Arc::new(file), ChildLimits::DRAWING, MAX_IMAGE_BYTES).await
}

#[cfg(test)]
mod tests {
    use super::super::{OutputFormat, resize};
    use super::*;
    use crate::domain::channel_logo;

    const HEAD: &str =
        "xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" viewBox=\"0 0 200 100\"";

    async fn draw_png(svg: &str, side: u32) -> Result<Option<Vec<u8>>> {
        assert!(is_usable(svg.as_bytes()));
        resize(Path::new("ffmpeg"), svg.as_bytes(), side, OutputFormat::Png).await
    }

    async fn draw_within(body: &str) -> Result<Option<Vec<u8>>> {
        draw_png(&format!("<svg {HEAD}>{body}</svg>"), 128).await
    }

    /// Width, height and RGBA pixels.
    fn decode(png: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgba);
        (info.width, info.height, pixels)
    }

    #[tokio::test]
    async fn a_logo_is_drawn_with_its_opacity_in_each_size() {
        let svg = format!(
            "<?xml version=\"1.0\"?><!DOCTYPE svg [<!ENTITY blue \"#00f\">]><svg {HEAD}>\
             <rect width=\"100\" height=\"100\" fill=\"&blue;\" opacity=\"0.5\"/></svg>"
        );
        for side in channel_logo::PNG_SIZES {
            let (width, height, pixels) = decode(&draw_png(&svg, side).await.unwrap().unwrap());
            assert_eq!((width, height), (side, side / 2));
            let row = pixels.chunks_exact(width as usize * 4).nth(height as usize / 2).unwrap();
            let [red, green, blue, alpha] = row[40..44] else { unreachable!() };
            assert!((red, green) == (0, 0) && blue >= 250 && (126..=130).contains(&alpha), "{:?}", &row[40..44]);
            assert_eq!(row[row.len() - 41], 0, "transparent where nothing is drawn");
        }
    }

    #[tokio::test]
    async fn nothing_outside_the_svg_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.png");
        std::fs::write(&path, channel_logo::to_png(7, 64)).unwrap();
        let image = |address: &str| format!("<image width=\"200\" height=\"100\" xlink:href=\"{address}\"/>");
        let square = "<rect width=\"50\" height=\"50\"/>";
        let plain = draw_within(square).await.unwrap().unwrap();
        for address in [format!("file://{}", path.display()), path.display().to_string(), "http://127.0.0.1:9/".into()]
        {
            let drawn = draw_within(&format!("{}{square}", image(&address))).await.unwrap();
            assert_eq!(drawn.as_ref(), Some(&plain), "{address}");
        }
        let secret = data_encoding::BASE64.encode(&std::fs::read(path).unwrap());
        let within = draw_within(&image(&format!("data:image/png;base64,{secret}"))).await.unwrap().unwrap();
        assert_ne!(decode(&within).2[128 * 32 * 4 + 64 * 4 + 3], 0, "an image within the SVG is drawn");
        let entity = format!(
            "<!DOCTYPE svg [<!ENTITY file SYSTEM \"file:///etc/passwd\">]><svg {HEAD}><text y=\"50\">&file;</text></svg>"
        );
        assert_eq!(draw_png(&entity, 128).await, Ok(None));
    }

    #[tokio::test]
    async fn broken_and_huge_drawings_are_refused() {
        let nested = format!("{}{}", "<g>".repeat(10_000), "</g>".repeat(10_000));
        for body in ["<rect", &nested] {
            assert_eq!(draw_within(body).await, Ok(None), "{:.20}", body);
        }
        let sized = |size: &str| {
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size}><rect width=\"9\" height=\"9\"/></svg>")
        };
        for size in
            ["width=\"1\" height=\"1000000000\"", "width=\"1000000000\" height=\"1\"", "width=\"0\" height=\"0\""]
        {
            assert_eq!(draw_png(&sized(size), 128).await, Ok(None), "{size}");
        }
        let entities: String =
            (1..12).map(|at| format!("<!ENTITY e{at} \"{}\">", format!("&e{};", at - 1).repeat(10))).collect();
        let bomb = format!("<!DOCTYPE svg [<!ENTITY e0 \"<g/>\">{entities}]><svg {HEAD}>&e11;</svg>");
        assert_eq!(draw_png(&bomb, 128).await, Ok(None));
        assert!(!is_usable(&[b"<svg/>".to_vec(), vec![b' '; MAX_SVG_BYTES]].concat()));
    }

    #[tokio::test]
    async fn a_drawing_without_end_is_stopped() {
        let groups: String = (1..12)
            .map(|at| format!("<g id=\"u{at}\">{}</g>", format!("<use xlink:href=\"#u{}\"/>", at - 1).repeat(10)))
            .collect();
        let bomb = format!(
            "<defs><filter id=\"f\"><feTurbulence baseFrequency=\"0.1\"/></filter>\
             <g id=\"u0\"><rect width=\"200\" height=\"100\" filter=\"url(#f)\"/></g>{groups}</defs><use xlink:href=\"#u11\"/>"
        );
        // Killed after its processor time, or late on a busy machine.
        let drawn = draw_within(&bomb).await;
        assert!(matches!(drawn, Err(RunError::Internal(_) | RunError::Stalled(_))), "{drawn:?}");
    }
}
