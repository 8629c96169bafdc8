package scheduler

import "strings"

// Nearest returns the candidate that a mistyped name is closest to, or "".
func Nearest(name string, candidates []string) string {
	best, distance := "", 3
	for _, c := range candidates {
		if d := typos(plain(name), plain(c)); d < distance && d*2 < len(c) {
			best, distance = c, d
		}
	}
	return best
}

// plain takes case and separators out of a name: time_zone, TimeZone and timezone are one.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// typos counts the letters to insert, leave out, change or swap with their neighbour to come from a
// to b. Names are short; a long one is nobody's typo.
func typos(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return len(a) + len(b)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
