//! HDR to SDR by `zscale` and `tonemap`.

use crate::domain::media::{Color, Hdr};

/// The filters from HDR to BT.709 in limited range, separated by commas. They also scale to `size`, if it is given. The transfer
/// function is that of the container, because the frames themselves may carry no description. The last filter names the format:
/// zscale has no NV12, which most hardware encoders take, and would leave the conversion from RGB to swscale, which takes BT.601.
pub fn tone_map_filters(hdr: Hdr, color: Option<&Color>, size: Option<(u32, u32)>) -> String {
    let stated_transfer = color.and_then(|color| color.transfer.as_deref());
    let is_pq = stated_transfer.map_or(hdr != Hdr::Hlg, |name| name == "smpte2084");
    let transfer = if is_pq { "smpte2084" } else { "arib-std-b67" };
    let range = if color.and_then(|color| color.range.as_deref()) == Some("full") { "full" } else { "limited" };
    let scaling = size.map_or(String::new(), |(width, height)| format!("w={width}:h={height}:"));
    format!(
        "zscale={scaling}tin={transfer}:min=bt2020nc:pin=bt2020:rin={range}:t=linear:npl=100,format=gbrpf32le,\
         zscale=p=bt709,tonemap=tonemap=hable:desat=0,zscale=t=bt709:m=bt709:r=limited,format=yuv420p"
    )
}
