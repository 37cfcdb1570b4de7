//! What a text of Lua says, without how it says it: the parser's tree has every space and
//! every comment, and names that may mean anything.
//!
//! Here a name is resolved: it is one variable, or global.

/// A local variable, a parameter or a variable of a loop: its place in [`Chunk::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VariableId(pub(super) usize);

#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Anywhere but where it is declared.
    pub(super) assigned: bool,
    /// How many functions lie around it.
    pub(super) depth: usize,
}

/// A text of Lua.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) variables: Vec<Variable>,
    /// As [`Function::minus_zero`], outside of functions.
    pub(super) minus_zero: Option<u32>,
    pub(super) body: Block,
}

pub(super) type Block = Vec<Statement>;

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: u32,
    pub(super) kind: StatementKind,
}

#[derive(Debug)]
pub(super) enum StatementKind {
    Local(Vec<VariableId>, Vec<Expression>),
    LocalFunction(VariableId, Function),
    Assign(Vec<Target>, Vec<Expression>),
    Call(Expression),
    Do(Block),
    /// Conditions and what follows from them; what to do if none holds.
    If(Vec<(Expression, Block)>, Block),
    While(Expression, Block),
    Repeat(Block, Expression),
    For(For),
    ForEach(ForEach),
    Break,
    Return(Vec<Expression>),
    /// And why.
    Unsupported(String),
}

/// What is assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Local(VariableId),
    /// A variable of a function around this one.
    Outer(VariableId),
    Global(String),
    Element,
}

/// `for variable = first, last, step do`
#[derive(Debug)]
pub(super) struct For {
    pub(super) variable: VariableId,
    pub(super) first: Expression,
    pub(super) last: Expression,
    pub(super) step: Option<Expression>,
    pub(super) body: Block,
}

/// `for variables in values do`
#[derive(Debug)]
pub(super) struct ForEach {
    pub(super) variables: Vec<VariableId>,
    pub(super) values: Vec<Expression>,
    pub(super) body: Block,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) line: u32,
    pub(super) parameters: Vec<VariableId>,
    /// `...`
    pub(super) takes_more: bool,
    /// A line on which literals make -0, or a number that is not known: then every 0 of this function may
    /// be -0 (`parse/folding.rs`).
    pub(super) minus_zero: Option<u32>,
    /// Bytes of its text.
    pub(super) size: usize,
    pub(super) body: Block,
}

#[derive(Debug)]
pub(super) struct Expression {
    pub(super) line: u32,
    pub(super) kind: ExpressionKind,
}

#[derive(Debug)]
pub(super) enum ExpressionKind {
    Nil,
    Boolean(bool),
    Integer(i64),
    Text(Vec<u8>),
    Local(VariableId),
    Global(String),
    Index(Box<Expression>, Box<Expression>),
    Call(Box<Expression>, Vec<Expression>),
    /// `text:name(arguments)`
    Method(Box<Expression>, String, Vec<Expression>),
    Function(Function),
    Table(Vec<Field>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// And why.
    Unsupported(String),
}

#[derive(Debug)]
pub(super) enum Field {
    Positional(Expression),
    Named(Expression, Expression),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
    Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Arithmetic(crate::ir::Arithmetic),
    Comparison(crate::ir::Comparison),
    Concatenate,
    And,
    Or,
}
