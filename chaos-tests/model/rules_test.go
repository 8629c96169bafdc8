package main

import "reflect"

// union is what either takes away.
func union(a, b rules) rules {
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range x.NumField() {
		x.Field(i).SetBool(x.Field(i).Bool() || y.Field(i).Bool())
	}
	return a
}

// missingFrom are the guards that are not taken away.
func missingFrom(taken rules) (names []string) {
	v := reflect.ValueOf(taken)
	for i := range v.NumField() {
		if !v.Field(i).Bool() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}
