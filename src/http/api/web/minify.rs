//! Removes comments, indentation and unneeded spaces from the page's own scripts and styles before they are served.
//!
//! Lines stay, so a browser reports errors at their line of the source, and a line break still ends a statement. Names stay as well.
//! `tests/web/run weight` compares the syntax trees of the served scripts with those of their sources.

/// A script without comments and unneeded spaces. No text of it goes over several lines, which a test checks.
pub fn minify_script(text: &str) -> String {
    let mut scanner = Scanner::new(text.len());
    for line in text.lines() {
        scanner.add_script_line(line.trim());
    }
    scanner.served
}

/// A style sheet without comments and unneeded spaces.
pub fn minify_styles(text: &str) -> String {
    let mut scanner = Scanner::new(text.len());
    for line in text.lines() {
        scanner.add_style_line(line.trim());
    }
    scanner.served
}

/// Words after which a slash begins a regular expression.
const BEFORE_REGEX: [&str; 8] = ["return", "typeof", "case", "in", "of", "await", "void", "delete"];

/// Reads a file line by line.
struct Scanner {
    served: String,
    is_in_comment: bool,
    /// A space was read and not served yet.
    has_space: bool,
    /// Where the line begins in `served`.
    line_start: usize,
}

impl Scanner {
    fn new(capacity: usize) -> Self {
        Self { served: String::with_capacity(capacity), is_in_comment: false, has_space: false, line_start: 0 }
    }

    fn add_script_line(&mut self, line: &str) {
        // The braces that are open in each `${`, the outermost first.
        let mut open_braces: Vec<usize> = Vec::new();
        let mut rest = self.after_comment(line);
        while let Some(c) = rest.chars().next() {
            let length = match c {
                _ if rest.starts_with("//") => rest.len(),
                _ if rest.starts_with("/*") => {
                    self.is_in_comment = true;
                    rest = self.after_comment(&rest[2..]);
                    continue;
                }
                c if c.is_whitespace() => {
                    self.has_space = true;
                    c.len_utf8()
                }
                '"' | '\'' => self.copy(&rest[..length_of_text(rest, c)]),
                '`' => self.copy_template(rest, &mut open_braces),
                '}' if open_braces.last() == Some(&0) => {
                    open_braces.pop();
                    self.copy_template(rest, &mut open_braces)
                }
                '/' if self.may_begin_regex() => self.copy(&rest[..length_of_regex(rest)]),
                c => {
                    match (c, open_braces.last_mut()) {
                        ('{', Some(open)) => *open += 1,
                        ('}', Some(open)) => *open -= 1,
                        _ => {}
                    }
                    self.copy(&rest[..c.len_utf8()])
                }
            };
            rest = &rest[length..];
        }
        self.end_line();
    }

    fn add_style_line(&mut self, line: &str) {
        let mut rest = self.after_comment(line);
        while let Some(c) = rest.chars().next() {
            let length = match c {
                _ if rest.starts_with("/*") => {
                    self.is_in_comment = true;
                    rest = self.after_comment(&rest[2..]);
                    continue;
                }
                c if c.is_whitespace() => {
                    self.has_space = true;
                    c.len_utf8()
                }
                '"' | '\'' => self.copy_style(&rest[..length_of_text(rest, c)]),
                _ => self.copy_style(&rest[..c.len_utf8()]),
            };
            rest = &rest[length..];
        }
        self.end_line();
    }

    /// The part of a line after the comment that is open; all of it without one.
    fn after_comment<'a>(&mut self, line: &'a str) -> &'a str {
        if !self.is_in_comment {
            return line;
        }
        let Some((_, rest)) = line.split_once("*/") else { return "" };
        self.is_in_comment = false;
        self.has_space = true;
        rest
    }

    /// Serves a token of a script, after a space where it needs one; returns its length.
    fn copy(&mut self, token: &str) -> usize {
        let needs_space = |before: char, after: char| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '#' || !c.is_ascii();
            is_word(before) && is_word(after) || before == after && "+-/".contains(before)
        };
        self.copy_with(token, needs_space)
    }

    /// Serves a token of a style sheet.
    fn copy_style(&mut self, token: &str) -> usize {
        self.copy_with(token, |before, after| !"{};,:".contains(before) && !"{};,".contains(after))
    }

    fn copy_with(&mut self, token: &str, needs_space: impl Fn(char, char) -> bool) -> usize {
        let before = self.served[self.line_start..].chars().next_back();
        if std::mem::take(&mut self.has_space)
            && let (Some(before), Some(after)) = (before, token.chars().next())
            && needs_space(before, after)
        {
            self.served.push(' ');
        }
        self.served.push_str(token);
        token.len()
    }

    /// Serves a template from its backtick, or from the brace that ends a `${`, to its end or the next `${`.
    fn copy_template(&mut self, rest: &str, open_braces: &mut Vec<usize>) -> usize {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => return self.copy(&rest[..=at]),
                '$' if rest[at..].starts_with("${") => {
                    open_braces.push(0);
                    return self.copy(&rest[..at + 2]);
                }
                _ => {}
            }
        }
        self.copy(rest)
    }

    /// Whether a slash here begins a regular expression; otherwise it divides.
    fn may_begin_regex(&self) -> bool {
        let line = &self.served[self.line_start..];
        let Some(before) = line.chars().next_back() else { return true };
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let word = &line[line.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
        BEFORE_REGEX.contains(&word) || !(is_word(before) || ")]}\"'`".contains(before))
    }

    fn end_line(&mut self) {
        self.served.push('\n');
        self.has_space = false;
        self.line_start = self.served.len();
    }
}

/// The length of a text in quotes; of the rest of the line if it does not end.
fn length_of_text(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a regular expression, without its flags.
fn length_of_regex(rest: &str) -> usize {
    let (mut escaped, mut in_class) = (false, false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_spaces_are_removed_and_lines_stay() {
        let text = "// About.\n\n/** One. */\nconst a = 1; // Goes.\n/**\n * Two.\n */\nfunction f() {\n  return \"// no\" + a;\n}\n";
        let served = "\n\n\nconst a=1;\n\n\n\nfunction f(){\nreturn\"// no\"+a;\n}\n";
        assert_eq!(minify_script(text), served);
    }

    #[test]
    fn spaces_stay_where_they_matter() {
        for (source, served) in [
            ("a + +b - -c", "a+ +b- -c"),
            ("x = y / 2 / z; // z", "x=y/2/z;"),
            ("s.replace(/[/ ]+ \\/ x/g, \" // \")", "s.replace(/[/ ]+ \\/ x/g,\" // \")"),
            ("return / a /.test(b)", "return/ a /.test(b)"),
            ("t(`a : ${ n ? ` : ${ { b : 1 }.b } ` : \"\" } , c`)", "t(`a : ${n?` : ${{b:1}.b} `:\"\"} , c`)"),
            ("const x = /** @type {any} */ (y) ?? 'it\\'s  x'", "const x=(y)??'it\\'s  x'"),
            ("async (a) => { await b; }", "async(a)=>{await b;}"),
            ("export default class A extends B {", "export default class A extends B{"),
        ] {
            assert_eq!(minify_script(source), format!("{served}\n"));
        }
        for (source, served) in [
            (".a > b :hover, c { margin: 0 calc(1px + 2px); }", ".a > b :hover,c{margin:0 calc(1px + 2px);}"),
            ("@media (width >= 40rem) and (hover) { /* x */", "@media (width >= 40rem) and (hover){"),
            ("q { content: \" , \"; }", "q{content:\" , \";}"),
        ] {
            assert_eq!(minify_styles(source), format!("{served}\n"));
        }
    }

    /// A template over several lines would lose its indentation, and a line in it could look like a comment.
    #[test]
    fn no_text_of_the_page_goes_over_several_lines() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/web");
        let mut files = 0;
        for folder in [folder.clone(), folder.join("language")] {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|extension| extension != "js") {
                    continue;
                }
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let served = minify_script(&text);
                assert_eq!(served.lines().count(), text.lines().count(), "{}", path.display());
                for (number, line) in served.lines().enumerate() {
                    assert_eq!(line.matches('`').count() % 2, 0, "{}:{} {line}", path.display(), number + 1);
                }
            }
        }
        assert!(files > 60, "the files are found");
    }
}
