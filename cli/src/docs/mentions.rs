//! Finds code in Markdown, and words in lines for a shell.

/// A piece of code and how it stands there.
#[derive(Debug, PartialEq, Eq)]
pub enum Mention {
    /// A line of a block, which people copy.
    Line(String),
    /// Within a sentence: what it does not say may be left out.
    Inline(String),
}

/// All code of a page: the lines of its blocks, continued ones joined, and what stands in backticks.
pub fn of(page: &str) -> Vec<Mention> {
    let mut found = vec![];
    let mut prose = String::new();
    for (i, part) in page.split("\n```").enumerate() {
        if i % 2 == 0 {
            prose.push_str(part);
            prose.push_str("\n\n");
            continue;
        }
        // The first line is what follows the backticks: the language.
        let code = part.split_once('\n').map_or("", |(_, code)| code).replace("\\\n", " ");
        found.extend(code.lines().map(|line| Mention::Line(line.trim().to_owned())));
    }
    for paragraph in prose.split("\n\n") {
        let spans = paragraph.split('`').skip(1).step_by(2);
        found
            .extend(spans.map(|span| Mention::Inline(span.split_whitespace().collect::<Vec<_>>().join(" "))));
    }
    found
}

/// The commands of a line for a shell, each as its words: without comments, redirections and variables set before them.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![]];
    let mut skip_next = false;
    for word in words(line) {
        match word.as_str() {
            ";" | "|" | "&&" => commands.push(vec![]),
            ">" | "<" => skip_next = true,
            _ if skip_next => skip_next = false,
            _ => {
                let command = commands.last_mut().expect("there is always one");
                let sets_variable = command.is_empty() && word.contains('=');
                if !sets_variable {
                    command.push(word);
                }
            }
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// The words, operators among them, up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | ';' | '|' | '<' | '>') => {
                words.extend(word.take());
                if letter != ' ' {
                    words.push(letter.to_string());
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn code_is_found_in_blocks_and_sentences_and_split_like_a_shell_does() {
    let page =
        "Say `bongsu status\nID`.\n\n```sh\nbongsu send \\\n    --title 'a b' # why\n```\nand `more`\n";
    let line = Mention::Line("bongsu send      --title 'a b' # why".to_owned());
    let inline = |text: &str| Mention::Inline(text.to_owned());
    assert_eq!(of(page), [line, inline("bongsu status ID"), inline("more")]);
    let split = commands("A=1 bongsu send --title 'a b' >out; bongsu pause 1 | head # why");
    let expected = [&["bongsu", "send", "--title", "a b"][..], &["bongsu", "pause", "1"], &["head"]];
    assert_eq!(split, expected);
}
