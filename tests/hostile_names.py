"""Names and texts that attack whoever prints them."""

NAMES = [
    "plain",
    "\x1b]0;title\x07\x1b[2J",
    "\x9b31m",
    "line\r\nbreak\u2028and\x85more",
    "\u202egnp.exe\u2066",
    "<!channel> <!here|x> <@U012345>",
    "@everyone @channel @all",
    "[ok](https://evil.example) ![x](https://evil.example/x.png)",
    "<https://evil.example|harmless>",
    "<img src=x onerror=alert(1)><script>",
    "`a", "b`", "a``b", "```", "`` ` ``", "\\`\\",
    "| a | b |\n|---|", "# h", "1. x", "- x", "~~~", "***b*** __i__ ~~s~~", "$x$ :tada: &amp;",
    "$(touch /tmp/owned); `id` 'q' \"d\" \\",
    "-rf", "--skip-ddl.x", "!history",
    "\ud800",
    "订单 👍",
    " a  b ",
]  # fmt: skip
