#include "muster/tune/space/expression.h"

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tune/space/draw_function.h"
#include "muster/tune/space/lexer.h"

namespace muster::tune {
namespace {

using Op = Node::Op;

// Far above what anyone writes; keeps the recursion of parser and evaluator small.
constexpr int kMostNested = 64;
constexpr size_t kMostNodes = 2000;

class Parser {
 public:
  enum Allow { kEverything, kNoDraws };
  Parser(std::string_view text, std::string_view where, Allow allow)
      : text_(text), where_(where), allow_(allow), tokens_(tokens_of(text, where)) {}

  Expression whole_expression() {
    out_.root = either();
    end();
    return std::move(out_);
  }

  Draw lone_draw() {
    const Token name = advance();
    if (name.kind != Token::kName || !is("("))
      refuse(name, "a domain is a function with its bounds, like uniform(0, 1)", kExpressionHint);
    const DrawFunction* function = find_draw(name.text);
    if (function == nullptr) unknown_function(name, true);
    ++at_;
    Draw draw{name.text, drawn(name, *function)};
    if (now().kind != Token::kEnd)
      refuse(now(), "nothing stands behind the domain", kExpressionHint);
    return draw;
  }

 private:
  static constexpr const char* kExpressionHint =
      "an expression is written sample_from(2 ** randint(2, 9)), a text with brackets in it "
      "\"'a (b)'\", with quotes of its own";

  [[noreturn]] void refuse(const Token& at, std::string rule, std::string hint = "") const {
    refuse_expression(where_, text_, at.at, std::move(rule), std::move(hint));
  }

  const Token& now() const { return tokens_[at_]; }
  Token advance() { return now().kind == Token::kEnd ? now() : tokens_[at_++]; }
  bool is(std::string_view word) const {
    return (now().kind == Token::kSymbol || now().kind == Token::kName) && now().text == word;
  }
  bool accept(std::string_view word) {
    if (!is(word)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) refuse(now(), concat('"', word, "\" is missing"));
  }
  void end() const {
    if (is("=")) refuse(now(), "equal is written ==");
    if (now().kind != Token::kEnd) refuse(now(), "the expression ends here");
  }

  Node node(Op op, std::vector<Node> children) {
    if (++nodes_ > kMostNodes) refuse(now(), concat("at most ", kMostNodes, " operations"));
    return {.op = op, .children = std::move(children)};
  }
  Node node(Op op, Node left, Node right) {
    std::vector<Node> children;
    children.push_back(std::move(left));
    children.push_back(std::move(right));
    return node(op, std::move(children));
  }
  Node node(Op op, Node child) {
    std::vector<Node> children;
    children.push_back(std::move(child));
    return node(op, std::move(children));
  }

  /// Counts how deep the brackets and signs are.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMostNested)
        parser_.refuse(parser_.now(), concat("at most ", kMostNested, " brackets and signs deep"));
    }
    ~Deeper() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  Node either() {
    const Deeper deeper(*this);
    Node left = both();
    while (accept("or")) left = node(Op::kOr, std::move(left), both());
    return left;
  }

  Node both() {
    Node left = negated();
    while (accept("and")) left = node(Op::kAnd, std::move(left), negated());
    return left;
  }

  Node negated() {
    const Deeper deeper(*this);
    if (accept("not")) return node(Op::kNot, negated());
    return compared();
  }

  Node compared() {
    Node left = sum();
    if (accept("in")) return node(Op::kIn, list(std::move(left)));
    if (is("not") && tokens_[at_ + 1].text == "in") {
      at_ += 2;
      return node(Op::kNot, node(Op::kIn, list(std::move(left))));
    }
    const auto op = comparison();
    if (!op) return left;
    ++at_;
    Node out = node(*op, std::move(left), sum());
    if (comparison()) refuse(now(), "comparisons are joined by `and`");
    return out;
  }

  std::optional<Op> comparison() const {
    constexpr std::array<std::string_view, 6> kWords = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < kWords.size(); ++i) {
      if (is(kWords[i])) return static_cast<Op>(static_cast<size_t>(Op::kEqual) + i);
    }
    return std::nullopt;
  }

  /// The values behind `in`, with what is looked for before them.
  std::vector<Node> list(Node sought) {
    std::vector<Node> nodes;
    nodes.push_back(std::move(sought));
    const bool square = is("[");
    if (!square && !is("(")) refuse(now(), "behind `in` is a list in brackets");
    ++at_;
    append_until(square ? "]" : ")", nodes);
    return nodes;
  }

  /// Expressions with commas between them, up to the bracket, which is taken too.
  void append_until(std::string_view bracket, std::vector<Node>& nodes) {
    while (!accept(bracket)) {
      nodes.push_back(either());
      if (!accept(",") && !is(bracket))
        refuse(now(), concat("a comma or \"", bracket, "\" is missing"));
    }
  }

  Node sum() {
    Node left = term();
    for (;;) {
      if (accept("+"))
        left = node(Op::kAdd, std::move(left), term());
      else if (accept("-"))
        left = node(Op::kSubtract, std::move(left), term());
      else
        return left;
    }
  }

  Node term() {
    Node left = signed_power();
    for (;;) {
      if (accept("*"))
        left = node(Op::kMultiply, std::move(left), signed_power());
      else if (accept("/"))
        left = node(Op::kDivide, std::move(left), signed_power());
      else if (accept("//"))
        left = node(Op::kFloorDivide, std::move(left), signed_power());
      else if (accept("%"))
        left = node(Op::kModulo, std::move(left), signed_power());
      else
        return left;
    }
  }

  Node signed_power() {
    const Deeper deeper(*this);
    if (accept("+")) return signed_power();
    if (accept("-")) return node(Op::kNegative, signed_power());
    Node base = primary();
    if (accept("**")) return node(Op::kPower, std::move(base), signed_power());
    return base;
  }

  Node primary() {
    const Token token = advance();
    if (token.kind == Token::kNumber || token.kind == Token::kText) return {.value = token.value};
    if (token.kind == Token::kName) return named(token);
    if (token.kind == Token::kEnd) refuse(token, "a value is missing");
    if (token.text != "(") refuse(token, concat("a value is missing before \"", token.text, '"'));
    Node inside = either();
    expect(")");
    return inside;
  }

  Node named(const Token& name) {
    if (is("(")) return call(name);
    for (const auto& [word, value] : {std::pair("true", true), {"false", false}}) {
      if (name.text == word || (name.text.substr(1) == word + 1 && (name.text[0] | 32) == word[0]))
        return {.value = value};
    }
    for (const char* word : {"and", "or", "not", "in"}) {
      if (name.text == word) refuse(name, concat("a value is missing before `", word, '`'));
    }
    if (in_draw_) {
      refuse(name,
             concat("\"", name.text, "\" is no value: bounds and choices of a draw are constants"),
             concat("a text is written '",
                    name.text,
                    "'; a draw is scaled outside: ",
                    name.text,
                    " * uniform(0, 1)"));
    }
    const auto at = std::find(out_.names.begin(), out_.names.end(), name.text);
    Node node{.op = Op::kName, .index = static_cast<size_t>(at - out_.names.begin())};
    if (at == out_.names.end()) out_.names.push_back(name.text);
    return node;
  }

  Node call(const Token& name) {
    ++at_;
    if (name.text == "min" || name.text == "max" || name.text == "round") return arithmetic(name);
    const DrawFunction* function = find_draw(name.text);
    if (function == nullptr) unknown_function(name, false);
    if (in_draw_) refuse(name, "a draw stands in no other draw");
    if (name.text == "grid_search") refuse(name, "grid_search is a parameter's whole domain");
    if (allow_ == kNoDraws) refuse(name, "a condition draws nothing");
    out_.draws.push_back(drawn(name, *function));
    return {.op = Op::kDraw, .index = out_.draws.size() - 1};
  }

  Node arithmetic(const Token& name) {
    std::vector<Node> arguments;
    append_until(")", arguments);
    const bool round = name.text == "round";
    if (round ? arguments.empty() || arguments.size() > 2 : arguments.size() < 2)
      refuse(name,
             concat(name.text, round ? " takes one or two values" : " takes two or more values"));
    return node(round                ? Op::kRound
                : name.text == "min" ? Op::kMin
                                     : Op::kMax,
                std::move(arguments));
  }

  [[noreturn]] void unknown_function(const Token& name, bool alone) const {
    std::vector<std::string> known;
    if (alone)
      known.emplace_back("sample_from");
    else
      known = {"min", "max", "round"};
    for (const DrawFunction& function : draw_functions()) known.emplace_back(function.name);
    const bool is_slip = !alone || nearest(name.text, known);
    refuse(name,
           concat("unknown function \"", name.text, '"'),
           is_slip ? suggestion(name.text, known) : kExpressionHint);
  }

  /// Behind the opening bracket of a draw.
  Distribution drawn(const Token& name, const DrawFunction& function) {
    std::vector<Node> nodes;
    in_draw_ = true;
    if (function.most == 0 && accept("[")) {  // Ray's choice([1, 2])
      append_until("]", nodes);
      expect(")");
    } else {
      append_until(")", nodes);
    }
    in_draw_ = false;
    if (nodes.size() < function.least || (function.most > 0 && nodes.size() > function.most))
      refuse(name, concat("it is ", function.usage));
    try {
      std::vector<Value> arguments;
      for (const Node& node : nodes) arguments.push_back(evaluate(node, {}, {}));
      return function.make(arguments).distribution();
    } catch (const Error& error) {
      const ErrorText& said = error.text();
      throw usage_error(
          {.refused = concat(where_, ": ", said.refused.empty() ? text_ : said.refused),
           .rule = said.rule,
           .value = said.value,
           .hint = said.hint});
    }
  }

  std::string_view text_, where_;
  Allow allow_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  size_t nodes_ = 0;
  bool in_draw_ = false;
  Expression out_;
};

}  // namespace

Expression parse_expression(std::string_view text, std::string_view where) {
  return Parser(text, where, Parser::kEverything).whole_expression();
}

Expression parse_condition(std::string_view text, std::string_view where) {
  return Parser(text, where, Parser::kNoDraws).whole_expression();
}

Draw parse_draw(std::string_view text, std::string_view where) {
  return Parser(text, where, Parser::kEverything).lone_draw();
}

std::string parse_quoted(std::string_view text, std::string_view where) {
  const std::vector<Token> tokens = tokens_of(text, where);
  if (tokens[0].kind == Token::kText && tokens[1].kind == Token::kEnd)
    return tokens[0].value.as_text();
  refuse_expression(where, text, tokens[1].at, "nothing stands behind a text in quotes");
}

}  // namespace muster::tune
