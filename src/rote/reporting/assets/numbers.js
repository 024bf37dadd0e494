// Numbers and names in the format of the rest of the page.

const WHOLE = 1.0005; // from here on, a value is shown as recorded
const percents = (value) => (value === null || value >= WHOLE ? digits(value) : minus(fixed(100 * value)) + "%");
const digits = (value) => (value === null ? "–" : minus(general(value)));
const minus = (text) => text.replaceAll("-", "−");
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function fixed(value) {
  const whole = Math.max(0, Math.trunc(Math.abs(value))).toString().length;
  return toEven(value, Math.abs(value) < 1 ? 0 : whole + 1).toFixed(1);
}

// Python's .4g.
function general(value) {
  const [mantissa, exponent] = toEven(value, 4).toExponential(3).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 4) return String(Number(`${mantissa}e${exponent}`));
  return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

// Python rounds halves to even, browsers round them up.
function toEven(value, kept) {
  const [figures] = Math.abs(value).toExponential(20).replace(".", "").split("e");
  const isHalf = /^50*$/.test(figures.slice(kept));
  return isHalf && Number(figures[kept - 1]) % 2 === 0 ? value * (1 - Number.EPSILON) : value;
}

// Invisible characters and those that change the text direction are spelled out.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (sign) => {
    const code = sign.codePointAt(0);
    if (code === 0x200c || code === 0x200d) return sign;
    return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}
