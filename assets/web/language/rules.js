// Plural forms and numbers of a language, for its table.

/** `plural(forms)` returns a function from a count to the count with its noun; `decimal` and `number` format numbers. */
export function rulesOf(language) {
  const [rules, numbers] = [new Intl.PluralRules(language), new Intl.NumberFormat(language)];
  return {
    /** @param {Partial<Record<Intl.LDMLPluralRule, string>> & { other: string }} forms */
    plural: (forms) => (/** @type {number} */ count) => `${numbers.format(count)} ${forms[rules.select(count)] ?? forms.other}`,
    /** With exactly this many digits after the point. */
    decimal: (/** @type {number} */ value, digits) => new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value),
    number: (/** @type {number} */ value) => numbers.format(value),
  };
}
