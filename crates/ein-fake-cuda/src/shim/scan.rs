//! What has to be known of a text before it is compiled.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The text as `g++` gets it: shared memory in sections of its kernel, and the kernels made known at the end.
pub(super) fn prepared(source: &str) -> String {
    let plain = without_comments(source);
    let tokens = tokens(&plain);
    let kernels = kernels(&plain, &tokens);
    let mut out = String::with_capacity(source.len() + 1024);
    let mut dynamic = BTreeSet::new();
    let mut copied = 0;
    for (n, &(from, to)) in tokens.iter().enumerate() {
        if &plain[from..to] != "__shared__" {
            continue;
        }
        out.push_str(&plain[copied..from]);
        copied = to;
        if n > 0 && word(&plain, tokens[n - 1]) == "extern" {
            let rest = &tokens[n + 1..];
            let open = rest.iter().position(|&t| word(&plain, t) == "[").unwrap_or(0);
            if open > 0 {
                dynamic.insert(word(&plain, rest[open - 1]));
            }
        } else if let Some(kernel) = kernels.iter().find(|k| k.body.0 < from && from < k.body.1) {
            let _ = write!(out, "static __attribute__((section(\"ein_shared_{}\")))", kernel.name);
        } else {
            out.push_str("__shared__");
        }
    }
    out.push_str(&plain[copied..]);
    out.push('\n');
    for name in dynamic {
        let _ = writeln!(out, "asm(\".set {name}, ein_shim_dynamic\");");
    }
    let names: BTreeSet<&str> = kernels.iter().map(|k| k.name).collect();
    for name in names {
        let _ = writeln!(out, "EIN_SHIM_KERNEL({name})");
    }
    out
}

/// The names of a text's kernels.
pub(super) fn names(source: &str) -> BTreeSet<String> {
    let plain = without_comments(source);
    kernels(&plain, &tokens(&plain)).into_iter().map(|k| k.name.to_owned()).collect()
}

struct Kernel<'a> {
    name: &'a str,
    body: (usize, usize),
}

fn word(text: &str, token: (usize, usize)) -> &str {
    &text[token.0..token.1]
}

/// Spaces for comments, so that lines and columns stay.
fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let quoted = c == '"' || c == '\'';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if quoted {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|&(_, d)| {
                let ends = !escaped && (d == c || d == '\n');
                escaped = !escaped && d == '\\';
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        } else {
            c.len_utf8()
        };
        let (part, after) = rest.split_at(length);
        if part.starts_with("//") || part.starts_with("/*") {
            out.extend(part.chars().map(|d| if d == '\n' { d } else { ' ' }));
        } else {
            out.push_str(part);
        }
        rest = after;
    }
    out
}

/// Words, strings and single signs.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b >= 128;
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        at += 1;
        if bytes[from].is_ascii_whitespace() {
            continue;
        }
        if inside(bytes[from]) {
            while at < bytes.len() && inside(bytes[at]) {
                at += 1;
            }
        } else if bytes[from] == b'"' || bytes[from] == b'\'' {
            while at < bytes.len() && bytes[at] != bytes[from] {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at = (at + 1).min(bytes.len());
        }
        out.push((from, at));
    }
    out
}

/// The place after the bracket that closes the one at `open`.
fn closed(text: &str, tokens: &[(usize, usize)], open: usize) -> usize {
    let mut depth = 0;
    for (n, &t) in tokens.iter().enumerate().skip(open) {
        match word(text, t) {
            "(" | "{" => depth += 1,
            ")" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return n + 1;
        }
    }
    tokens.len()
}

/// All functions marked `__global__` that are no templates.
fn kernels<'a>(text: &'a str, tokens: &[(usize, usize)]) -> Vec<Kernel<'a>> {
    let mut out = Vec::new();
    for (n, &token) in tokens.iter().enumerate() {
        if word(text, token) != "__global__" {
            continue;
        }
        let before = tokens[..n].iter().rev().map(|&t| word(text, t)).take_while(|w| !matches!(*w, ";" | "}"));
        if before.into_iter().any(|w| w == "template" || w == "define") {
            continue;
        }
        // The name is the word before the first bracket that is not an attribute's.
        let mut at = n + 1;
        while at + 1 < tokens.len() {
            let name = word(text, tokens[at]);
            if word(text, tokens[at + 1]) == "(" {
                let after = closed(text, tokens, at + 1);
                if name.starts_with("__") {
                    at = after;
                    continue;
                }
                let mut body = (0, 0);
                if tokens.get(after).is_some_and(|&t| word(text, t) == "{") {
                    let end = closed(text, tokens, after);
                    body = (tokens[after].0, tokens[end - 1].1);
                }
                out.push(Kernel { name, body });
                break;
            }
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::prepared;

    #[test]
    fn kernels_are_made_known_and_their_shared_memory_is_theirs() {
        let text = "// __global__ void no() {}\nextern \"C\" __global__ void __launch_bounds__(128, 2)\nk(int a) {\n  \
                    __shared__ float t[4]; extern __shared__ __align__(16) unsigned char s[]; }\n\
                    template <class T> __global__ void no(T t) {}\n__device__ void f() { __shared__ int u; }";
        let out = prepared(text);
        assert!(out.contains("EIN_SHIM_KERNEL(k)\n"), "{out}");
        assert_eq!(out.matches("EIN_SHIM_KERNEL").count(), 1, "{out}");
        assert!(out.contains("section(\"ein_shared_k\"))) float t[4]"), "{out}");
        assert!(out.contains("extern  __align__(16) unsigned char s[]"), "{out}");
        assert!(out.contains(".set s, ein_shim_dynamic"), "{out}");
        assert!(out.contains("{ __shared__ int u; }"), "{out}");
    }

    #[test]
    fn strings_are_no_comments() {
        let out = prepared("const char* a = \"// /* \\\" \"; extern \"C\" __global__ void k() {}");
        assert!(out.contains("\"// /* \\\" \""), "{out}");
        assert!(out.contains("EIN_SHIM_KERNEL(k)"), "{out}");
    }
}
