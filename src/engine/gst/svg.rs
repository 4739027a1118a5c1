//! A graph as SVG, which every browser shows: elements in columns, starting with the sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Sizes in pixels: height of a line of text, gap between boxes, width of a letter.
const LINE_HEIGHT: usize = 16;
const BOX_GAP: usize = 40;
const LETTER_WIDTH: usize = 8;

/// Draws elements (their lines of text, the name first) and the links between them (as indices into `elements`).
pub(super) fn render_svg(elements: &[Vec<String>], links: &[(usize, usize)]) -> String {
    let columns = assign_columns(elements.len(), links);
    let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
    for (element, column) in elements.iter().zip(&columns) {
        let longest_line = element.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let width = widths.entry(*column).or_default();
        *width = (*width).max(longest_line * LETTER_WIDTH + 2 * LETTER_WIDTH);
    }
    let column_left =
        |column: usize| BOX_GAP / 2 + widths.range(..column).map(|(_, width)| width + BOX_GAP).sum::<usize>();
    let mut bottoms: BTreeMap<usize, usize> = BTreeMap::new();
    let mut boxes = Vec::new();
    for (element, column) in elements.iter().zip(&columns) {
        let bottom = bottoms.entry(*column).or_insert(BOX_GAP / 2);
        let height = (element.len() + 1) * LINE_HEIGHT;
        boxes.push((column_left(*column), *bottom, widths[column], height));
        *bottom += height + BOX_GAP / 2;
    }
    let (width, height) = (column_left(usize::MAX), bottoms.values().max().copied().unwrap_or(BOX_GAP));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for &(from, to) in links {
        let ((x, y, width, height), (end, top, _, end_height)) = (boxes[from], boxes[to]);
        let (x, y, top) = (x + width, y + height / 2, top + end_height / 2);
        let (start_control_x, end_control_x) = (x + BOX_GAP / 2, end.saturating_sub(BOX_GAP / 2));
        let _ = writeln!(
            out,
            "<path d=\"M{x} {y}C{start_control_x} {y} {end_control_x} {top} {end} {top}\" fill=\"none\" stroke=\"#666\"/>\
             <circle cx=\"{end}\" cy=\"{top}\" r=\"3\" fill=\"#666\"/>"
        );
    }
    for (element, (x, y, width, height)) in elements.iter().zip(boxes) {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"#f4f0ea\" stroke=\"#666\"/>"
        );
        for (number, line) in element.iter().enumerate() {
            let weight = if number == 0 { "bold" } else { "normal" };
            let (x, y) = (x + LETTER_WIDTH, y + (number + 1) * LINE_HEIGHT);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" font-weight=\"{weight}\">{}</text>",
                glib::markup_escape_text(line)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The column of each element: one after the last of those that link to it.
fn assign_columns(count: usize, links: &[(usize, usize)]) -> Vec<usize> {
    let mut columns = vec![0; count];
    // As many rounds as elements, so that a cycle ends too.
    for _ in 0..count {
        let before = columns.clone();
        for &(from, to) in links {
            columns[to] = columns[to].max(columns[from] + 1).min(count);
        }
        if columns == before {
            break;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_placed_after_their_sources() {
        assert_eq!(assign_columns(4, &[(0, 1), (1, 3), (2, 3)]), [0, 1, 0, 2]);
        assert_eq!(assign_columns(2, &[(0, 1), (1, 0)]).len(), 2, "a cycle ends");
    }

    #[test]
    fn text_is_escaped() {
        let svg = render_svg(&[vec!["a".into(), "caps=<b> & \"c\"".into()]], &[]);
        assert!(svg.contains("caps=&lt;b&gt; &amp; &quot;c&quot;</text>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
