/* distribution.c - normal, t and noncentral t: tails, quantiles, what n could show.
 *
 * Quantiles are found by halving an interval until it holds no further double: slow,
 * short, and as exact as the distribution function. Nothing here runs in a loop.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "stats/stats.h"

#include <math.h>

/* A rising function of x with fixed parameters. */
struct curve {
    double (*at)(const struct curve *curve, double x);
    double a, b;
};

/* The x in [low, high] where `curve` reaches `value`. */
static double solve(const struct curve *curve, double value, double low, double high)
{
    for (;;) {
        const double middle = low + (high - low) / 2;

        if (middle <= low || middle >= high) return middle;
        if (curve->at(curve, middle) < value)
            low = middle;
        else
            high = middle;
    }
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double normal_at(const struct curve *curve, double x)
{
    (void)curve;
    return normal_cdf(x);
}

double fb_normal_quantile(double p)
{
    const struct curve normal = {.at = normal_at};

    FB_ASSERT(p > 0 && p < 1);
    if (p > 0.5) return -fb_normal_quantile(1 - p); /* the left tail has the digits */
    return p < 0.5 ? solve(&normal, p, -40, 0) : 0;
}

/* Continued fraction of the incomplete beta function by the modified Lentz method;
 * Abramowitz and Stegun 26.5.8. */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;

    for (int m = 1; m <= 10000; m++) {
        for (int odd = 0; odd < 2; odd++) {
            const double k = a + 2 * m;
            const double step = odd ? -(a + m) * (a + b + m) * x / (k * (k + 1))
                                    : m * (b - m) * x / ((k - 1) * k);

            d = 1 + step * d;
            c = 1 + step / c;
            if (fabs(d) < tiny) d = tiny;
            if (fabs(c) < tiny) c = tiny;
            d = 1 / d;
            h *= d * c;
        }
        if (fabs(d * c - 1) < 1e-16) break;
    }
    return h;
}

static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign); /* lgamma itself writes a global */
}

/* Regularised incomplete beta function I_x(a, b). */
static double beta_share(double x, double a, double b)
{
    double front;

    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - beta_share(1 - x, b, a);
    front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) +
                b * log1p(-x));
    return front * beta_fraction(x, a, b) / a;
}

double fb_t_cdf(double t, double df)
{
    const double tail = 0.5 * beta_share(df / (df + t * t), df / 2, 0.5);

    FB_ASSERT(df > 0);
    return t < 0 ? tail : 1 - tail;
}

static double t_at(const struct curve *curve, double x)
{
    return fb_t_cdf(x, curve->a);
}

double fb_t_quantile(double p, double df)
{
    const struct curve t = {.at = t_at, .a = df};

    FB_ASSERT(p > 0 && p < 1);
    if (p > 0.5) return -fb_t_quantile(1 - p, df);
    return p < 0.5 ? solve(&t, p, -1e15, 0) : 0;
}

/* P(|T| > critical) for T = (Z + shift) / W, with W the root of a chi-square over its
 * `df`: one minus the integral over w of
 *     (Phi(c w - shift) - Phi(-c w - shift)) * density of W at w,
 * by Simpson's rule where W lives: mean near 1, s.d. near 1 / sqrt(2 df). */
static double power_at(const struct curve *curve, double shift)
{
    enum { STEPS = 500 };
    const double df = curve->a, critical = curve->b;
    const double spread = 14 / sqrt(2 * df);
    const double low = fmax(0, 1 - spread), step = (1 + spread - low) / STEPS;
    const double log_scale = log(2) + df / 2 * log(df / 2) - log_gamma(df / 2);
    double inside = 0;

    for (int i = 0; i <= STEPS; i++) {
        const double w = low + i * step;
        const double weight = i == 0 || i == STEPS ? 1 : i % 2 ? 4 : 2;
        const double log_w = df > 1 ? (df - 1) * log(w) : 0; /* 0 * log(0) */
        const double density = exp(log_scale + log_w - df / 2 * w * w);

        inside +=
            weight * density *
            (normal_cdf(critical * w - shift) - normal_cdf(-critical * w - shift));
    }
    return 1 - inside * step / 3;
}

double fb_smallest_effect(double sd, int n, double alpha, double power)
{
    struct curve curve = {.at = power_at};

    if (n < 2) return (double)INFINITY;
    curve.a = n - 1;
    curve.b = fb_t_quantile(1 - alpha / 2, n - 1);
    return sd * solve(&curve, power, 0, 100 * (curve.b + 10)) / sqrt(n);
}
